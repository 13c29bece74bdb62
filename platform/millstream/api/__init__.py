"""The Python API, `import millstream as ms`: the calls that the command line makes, for programs and notebooks."""
