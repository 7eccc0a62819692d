/// OpenFM's version, the same in the library, the command and the Python package.
public let openFMVersion = "0.1.0"
