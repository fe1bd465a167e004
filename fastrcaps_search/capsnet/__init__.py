"""The networks as pure functions of tensors: no files, no clock."""
