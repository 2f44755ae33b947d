"""Callbacks for trainers of other libraries; each file imports its own library and no other."""
