#!/usr/bin/python3
"""A filter: a job that names its team runs on that team's nodes, and on those that have no team.

    job "ingest" {
      plugin "teams" { team = "storage" }
    }

Nodes say whose they are with a label, teams=storage or teams=storage,search.
"""

from setpoint_plugin import Attribute, Filter, Stall, serve


class Teams(Filter):
    label = "teams"

    def configure(self, config):
        self.label = config["label"]

    def compile(self, request):
        if request.settings is None:
            return None
        team, label = request.settings["team"], self.label
        if "," in team or not team:
            raise Stall("bad_team", f"{team!r} is no name of a team", clears="the job names one team")

        def match(node):
            owners = [t.strip() for t in node.labels.get(label, "").split(",") if t.strip()]
            if not owners:
                return 0
            if team in owners:
                return 50
            return Stall("other_team", detail=f"not of team {team}", clears=f"a node gets the label {label}={team}")

        return match


if __name__ == "__main__":
    serve(
        Teams(), name="teams", version="1.0.0", watches=["labels"],
        config=[Attribute("label", default="teams", description="The label of nodes that lists their teams.")],
        job=[Attribute("team", required=True, description="The team whose nodes the job may use.")],
    )
