package kafka

import (
	"fmt"

	"spore/services/dataversion"
)

// firstKRaft is the first minor release of Kafka 3 whose metadata a later one can have.
const firstKRaft = 3

// data is what Kafka keeps.
var data = []dataversion.Row{{
	Name: "kafka", Roles: []string{Broker, Controller}, Payload: "kafka",
	Keeps: "`" + Metadata + "` and the data disks: the metadata log, records",
	Rule: "an older patch release reads it. An older minor release reads it while the cluster's `metadata.version` " +
		"is one that it knows. Neither an update nor Spore raises that, but `kafka-features upgrade` does; a " +
		"cluster that a newer release made has the newer one from its first start. No release reads back to before " +
		"3.3",
	Source: "Kafka documentation 4.3, “Upgrading”; Kafka, server-common, MetadataVersion; KIP-778",
	Judge:  judge,
}}

func judge(newer, older dataversion.Version) (dataversion.Verdict, string) {
	switch {
	case newer.SameSeries(older):
		return dataversion.Safe, "patch releases of Kafka have the same metadata.version"
	case older.Major < 3 || older.Major == 3 && older.Minor < firstKRaft:
		return dataversion.Unsafe, fmt.Sprintf("Kafka %s has no metadata that Kafka %s can have written",
			older.Series(), newer.Series())
	}
	return dataversion.Unknown, fmt.Sprintf("Kafka %s reads it only while the cluster's metadata.version is one of "+
		"%s or older; kafka-features describe says which it is", older.Series(), older.Series())
}
