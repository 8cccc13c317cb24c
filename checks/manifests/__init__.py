"""Manifests in the embedded lab and on a real control plane, compared.

``manifest_case`` reads what is to be applied, ``observation`` applies a case to a lab and looks at the outcome, ``comparison`` names what
differs, ``accepted`` lists the differences that have a reason, and ``judge`` does it all.
"""
