"""Studies: a trace replayed under many settings, here or on Dask, into one table.

study       what is varied, and the runs that follow
reading     a study's file
planning    the replay that the options of a run stand for
resampling  other traces of the same kind, by a seed
measuring   a run carried out, and its figures
keeping     what is done stays done
processes   runs in processes here
daskcluster runs on a Dask cluster
sweeping    a study from begin to end
finding     what the figures say, and how sure that is
"""
