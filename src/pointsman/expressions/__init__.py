"""The expression language of workflow decisions and sensors: grammar, compiler, functions."""
