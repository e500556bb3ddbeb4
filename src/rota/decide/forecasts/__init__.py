"""What people are told of the future: the plan played on in a copy of the core's memory, and the pace of queues.

Pure, as the rest of `decide`. Nothing here is an input of a decision, and the original memory is never changed.
"""
