"""Message security of the binary protocol: signatures and body encryption ([MS-MQQB] 3.1.5.8.3, 3.1.7.1.4-5).

Pure: the time and random bytes come in as arguments. Keys, certificates and decisions about them live in
lior.server.transfer_security.
"""
