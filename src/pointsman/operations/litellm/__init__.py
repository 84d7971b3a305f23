"""What people bring along from LiteLLM: its configuration file, read into files of ours."""
