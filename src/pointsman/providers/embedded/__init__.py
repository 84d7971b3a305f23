"""The local model that needs no key, server or network: llama.cpp in a process of its own."""
