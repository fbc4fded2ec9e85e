"""Fuzz target: keys, addresses, sequences and certificates; what was read writes back to the same bytes."""

from contextlib import suppress

from lior.errors import LiorError
from lior.wire.structures import (
    MqDsPublicKey,
    RsaPublicKey,
    SequenceInfo,
    TxSequenceId,
    addresses_from_bytes,
    addresses_to_bytes,
    object_id_from_bytes,
    object_id_to_bytes,
    public_keys_from_bytes,
    public_keys_to_bytes,
    sign_certs_from_bytes,
    sign_certs_to_bytes,
)


def target(data: bytes) -> None:
    with suppress(LiorError):
        assert addresses_to_bytes(addresses_from_bytes(data)) == data
    with suppress(LiorError):
        assert sign_certs_to_bytes(sign_certs_from_bytes(data)) == data
    with suppress(LiorError):
        assert SequenceInfo.from_bytes(data).to_bytes() == data
    with suppress(LiorError):
        assert TxSequenceId.from_bytes(data).to_bytes() == data
    with suppress(LiorError):
        assert object_id_to_bytes(object_id_from_bytes(data)) == data
    with suppress(LiorError):
        key = RsaPublicKey.from_bytes(data)
        assert RsaPublicKey.from_bytes(key.to_bytes()) == key
    with suppress(LiorError):
        assert MqDsPublicKey.from_bytes(data).to_bytes() == data
    with suppress(LiorError):
        keys = public_keys_from_bytes(data)  # a key of an unknown provider is left out
        assert public_keys_from_bytes(public_keys_to_bytes(keys)) == keys


if __name__ == "__main__":
    from harness import run

    run(target)
