"""PromQL as Prometheus 3 speaks it: text to a typed tree with places, and back.

parser.parse      text to tree, checked            printer.to_text   tree to text
types.type_of     scalar, vector, ...              pretty.pretty     tree to lines
bound.bind        the tree for one query's times   functions.SIGNATURES
"""
