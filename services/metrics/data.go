package metrics

import (
	"fmt"

	"spore/services/dataversion"
)

// data is what the store keeps.
var data = []dataversion.Row{
	{
		Name: Program, Roles: []string{Role}, Payload: Program,
		Keeps: "`/var/lib/victoria-metrics`, or the disk of the store: samples and their index",
		Rule: "an older release reads it within one minor version. Between minor versions nothing is promised: a release that " +
			"changes the format says so in its changelog",
		Source: "VictoriaMetrics documentation, single-server, how to upgrade",
		Judge:  judge,
	},
	{
		Name: Manager, Roles: []string{AlertsRole}, Package: "prometheus-alertmanager",
		Keeps: "`/var/lib/alertmanager`: silences, and what was sent to whom",
		Rule: "an older patch release reads it. Of an older minor release nothing is promised: a file that it cannot read " +
			"keeps it from starting",
		Source: "Alertmanager, silence/silence.go and nflog/nflog.go, loadSnapshot",
		Judge:  judgeManager,
	},
}

func judgeManager(newer, older dataversion.Version) (dataversion.Verdict, string) {
	if newer.SameSeries(older) {
		return dataversion.Safe, "patch releases of Alertmanager write the same format"
	}
	return dataversion.Unknown, fmt.Sprintf("nothing promises that Alertmanager %s reads what %s wrote",
		older.Series(), newer.Series())
}

func judge(newer, older dataversion.Version) (dataversion.Verdict, string) {
	if newer.SameSeries(older) {
		return dataversion.Safe, "patch releases of VictoriaMetrics write the same format"
	}
	return dataversion.Unknown, fmt.Sprintf("nothing promises that VictoriaMetrics %s reads what %s wrote",
		older.Series(), newer.Series())
}
