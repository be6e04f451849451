package metrics

import (
	"fmt"

	"spore/services/dataversion"
)

// data is what the store keeps.
var data = []dataversion.Row{{
	Name: Program, Roles: []string{Role}, Payload: Program,
	Keeps: "`/var/lib/victoria-metrics`: samples and their index",
	Rule: "an older release reads it within one minor version. Between minor versions nothing is promised: a release that " +
		"changes the format says so in its changelog",
	Source: "VictoriaMetrics documentation, single-server, how to upgrade",
	Judge:  judge,
}}

func judge(newer, older dataversion.Version) (dataversion.Verdict, string) {
	if newer.SameSeries(older) {
		return dataversion.Safe, "patch releases of VictoriaMetrics write the same format"
	}
	return dataversion.Unknown, fmt.Sprintf("nothing promises that VictoriaMetrics %s reads what %s wrote",
		older.Series(), newer.Series())
}
