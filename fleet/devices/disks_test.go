package devices

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/wire/machine"
)

func TestADiskIsShownWithWhatSelectsIt(t *testing.T) {
	data, err := json.Marshal(machine.Disk{
		Name: "sda", Size: 4 << 40, Model: "ST4000", Transport: "sata", Rotational: true, Whose: machine.Role, About: "it is Kafka disk 1 of this node",
		Selectors: []machine.Selector{{Key: "serial", Value: "ZGY1"}, {Key: "wwn", Value: "0x5000c500a1b2c3d4"}},
		Partitions: []machine.Partition{
			{Number: 1, Name: "sda1", Size: 4 << 40, Label: "spore-kafka\x1b[2J", FileSystem: "ext4", Mounts: []string{"/var/lib/kafka/disks/1"},
				Fill: &machine.Fill{Size: 100 << 30, Used: 25 << 30, Free: 70 << 30, Inodes: 1000, FreeInodes: 50}},
			{Number: 2, Size: 1 << 20, Uses: []string{"/dev/mapper/x"}},
		},
	})
	require.NoError(t, err)
	var out strings.Builder
	require.NoError(t, ShowDisks(&out, "kafka-01", []json.RawMessage{data}))
	require.Equal(t, `kafka-01: sda, 4.0 TiB (ST4000, sata, rotating)
  role: it is Kafka disk 1 of this node
  selectors: {serial: "ZGY1"}  {wwn: "0x5000c500a1b2c3d4"}
  PART  SIZE     LABEL               PARTUUID  FILE SYSTEM  MOUNTED ON              FILLED
  1     4.0 TiB  spore-kafka\x1b[2J  -         ext4         /var/lib/kafka/disks/1  25%, 70 GiB free, 50 files more
  2     1.0 MiB  -                   -         -            /dev/mapper/x           -
`, out.String())
}

func TestADiskThatNothingSelectsSaysSo(t *testing.T) {
	var out strings.Builder
	require.NoError(t, ShowDisks(&out, "a", []json.RawMessage{[]byte(`{"name":"sdb","whose":"empty","about":"it was proved empty"}`)}))
	require.Contains(t, out.String(), "selectors: none: nothing that it reports is its own\n")
	require.NotContains(t, out.String(), "PART")
	require.ErrorContains(t, ShowDisks(&out, "a", []json.RawMessage{[]byte(`[]`)}), "malformed")
}
