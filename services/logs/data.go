package logs

import (
	"fmt"

	"spore/services/dataversion"
)

// QueueFormat is the version of the format of the queue of spore-logs-store (package spore/agent/logs/spool). Its first
// number is in each segment: a program knows those of its own number alone.
const QueueFormat = "1.0"

// data is what the store keeps.
var data = []dataversion.Row{
	{
		Name: Program, Roles: []string{Role}, Payload: Program,
		Keeps: "`/var/lib/victoria-logs`, or the disk of the store: entries and their index, in a folder for each day",
		Rule: "an older release reads it within one minor version. Between minor versions nothing is promised: a release " +
			"that changes the format says so in its changelog",
		Source: "VictoriaLogs documentation, how to upgrade",
		Judge:  judge,
	},
	{
		Name: Taker, Roles: []string{Role}, Own: Taker, Format: QueueFormat,
		Keeps: "`/var/lib/spore-logs-store`, or the disk of the store: entries that VictoriaLogs or a receiver does not have " +
			"yet, and which of each node's are there",
		Rule: "an older format of the same first number reads it. One of another number puts what waits in the queue aside, " +
			"until a release that reads it runs again, or there is no room for what comes",
		Source: "agent/logs/spool/frame.go, segmentMagic",
		Judge:  judgeQueue,
	},
}

func judgeQueue(newer, older dataversion.Version) (dataversion.Verdict, string) {
	if newer.Major == older.Major {
		return dataversion.Safe, fmt.Sprintf("a release with format %s reads the queue of format %s",
			older.Series(), newer.Series())
	}
	return dataversion.Unsafe, fmt.Sprintf("a release with format %s does not read the queue of format %s, and puts "+
		"aside what waits in it", older.Series(), newer.Series())
}

func judge(newer, older dataversion.Version) (dataversion.Verdict, string) {
	if newer.SameSeries(older) {
		return dataversion.Safe, "patch releases of VictoriaLogs write the same format"
	}
	return dataversion.Unknown, fmt.Sprintf("nothing promises that VictoriaLogs %s reads what %s wrote",
		older.Series(), newer.Series())
}
