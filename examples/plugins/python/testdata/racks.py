#!/usr/bin/python3
"""A drainer and a job type in one, which say everything that such can say. For the tests of the library."""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from setpoint_plugin import Attribute, Drained, Drainer, Go, JobType, Keep, Slot, Slots, Stall, serve


class Racks(JobType):
    """One slot for each rack, limited to its nodes."""

    def slots(self, job, nodes):
        if job.settings["label"] == "none":
            raise Stall("no_label", "no label is named", clears="the job names one")
        if job.settings["label"] == "broken":
            raise RuntimeError("the rack service is away")
        racks = {}
        for n in nodes:
            racks.setdefault(n.labels.get(job.settings["label"]), []).append(n.id)
        closed = Stall("closed", "the rack is closed")
        found = [Slot(str(r), nodes=ids, ends=job.count > 1, held=closed if r == "closed" else None) for r, ids in racks.items() if r]
        return Slots(found, again=60)


class Leaver(Drainer):
    """Keeps what is precious, sends the others."""

    def drain(self, request):
        if request.deadline is None:
            raise Stall("no_hurry", "there is time")
        precious = [t for t in request.tasks if t.labels.get("precious")]
        return Drained(
            go=[Go(t.id, "the node drains", forced=t.priority > 50, grace=0 if t.priority > 50 else None) for t in request.tasks if t.wanted and t not in precious],
            keep=[Keep(t.id, Stall("precious", "it is precious")) for t in precious], again=request.deadline - request.waited)


if __name__ == "__main__":
    serve(
        drainer=Leaver(), job_types={"racks": Racks()}, name="racks", version="1.0.0", watches=["labels"],
        job=[Attribute("label", default="rack")],
    )
