package logs

import (
	"fmt"

	"spore/services/dataversion"
)

// data is what the store keeps.
var data = []dataversion.Row{{
	Name: Program, Roles: []string{Role}, Payload: Program,
	Keeps: "`/var/lib/victoria-logs`, or the disk of the store: entries and their index, in a folder for each day",
	Rule: "an older release reads it within one minor version. Between minor versions nothing is promised: a release that " +
		"changes the format says so in its changelog",
	Source: "VictoriaLogs documentation, how to upgrade",
	Judge:  judge,
}}

func judge(newer, older dataversion.Version) (dataversion.Verdict, string) {
	if newer.SameSeries(older) {
		return dataversion.Safe, "patch releases of VictoriaLogs write the same format"
	}
	return dataversion.Unknown, fmt.Sprintf("nothing promises that VictoriaLogs %s reads what %s wrote",
		older.Series(), newer.Series())
}
