"""The version of the package, which is the program's (CMakeLists.txt)."""
__version__ = "0.9.0"
