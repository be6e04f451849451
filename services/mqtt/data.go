package mqtt

import (
	"fmt"

	"spore/services/dataversion"
)

// data is what the broker keeps.
var data = []dataversion.Row{{
	Name: "mosquitto", Roles: []string{role}, Package: "mosquitto",
	Keeps: "`/var/lib/mosquitto/mosquitto.db`: retained messages, sessions of clients",
	Rule: "an older patch release reads it. Of an older minor release nothing is promised: mosquitto does not start " +
		"on a file whose format is newer than its own",
	Source: "mosquitto, src/persist.h, MOSQ_DB_VERSION; src/persist_read.c, persist__restore",
	Judge:  judge,
}}

func judge(newer, older dataversion.Version) (dataversion.Verdict, string) {
	if newer.SameSeries(older) {
		return dataversion.Safe, "patch releases of mosquitto write the same format"
	}
	return dataversion.Unknown, fmt.Sprintf("nothing promises that mosquitto %s reads the file of %s",
		older.Series(), newer.Series())
}
