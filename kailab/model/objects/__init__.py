"""Typed views of the objects that decisions are made from: what scheduling reads, nothing else.

Decode with ``typed.convert(obj, Pod)`` from a dict or ``typed.decode_json(data, Pod)`` from bytes.
Unknown fields are passed over. Field names are Kubernetes' in snake case; quantities stay as written (int,
float or text; read them with ``kailab.model.quantities``), times too (``kailab.model.times``). Objects are
read-only.
"""
