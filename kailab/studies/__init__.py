"""Studies: a trace replayed under many settings, here or on Dask, into one table.

study       what is varied, and the runs that follow
reading     a study's file
planning    the replay that the options of a run stand for
resampling  other traces of the same kind, by a seed
measuring   a run carried out, and its figures
keeping     what is done stays done
running     runs carried out, but for those that are done
processes   runs in processes here
daskcluster runs on a Dask cluster
sweeping    a study from begin to end
target      what is asked of a replay, in one sentence
confidence  how sure it is that it is kept
finding     what the figures of a study say, and which setting is best
"""
