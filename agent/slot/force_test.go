package slot

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/test/faults"
	"spore/wire/update"
)

// An older configuration is taken where the cluster's key says so in the update itself, and only if it was signed
// later: whoever kept a file that was forced once does not go back to it.
func TestForceIsForOneTime(t *testing.T) {
	at := func(seconds int64) time.Time { return time.Unix(1_800_000_000+seconds, 0).UTC() }
	for name, tt := range map[string]struct {
		last   Record
		serial uint64
		force  bool
		issued time.Time
		want   string
	}{
		"a newer one":                           {Record{Serial: 1, ClusterHash: "x", Issued: at(0)}, 2, false, at(5), ""},
		"a newer one of a clock that went back": {Record{Serial: 1, ClusterHash: "x", Issued: at(9)}, 2, false, at(5), ""},
		"the same again":                        {Record{Serial: 2, ClusterHash: newSystem.hash, RootHash: rootHash, Issued: at(5)}, 2, false, at(5), ""},
		"an older one":                          {Record{Serial: 9, ClusterHash: "x", Issued: at(0)}, 2, false, at(5), "is older (2) than the last one that this node took (9)"},
		"another one of the same serial":        {Record{Serial: 2, ClusterHash: "x", Issued: at(0)}, 2, false, at(5), "is older (2) than the last one that this node took (2)"},
		"an older one by force":                 {Record{Serial: 9, ClusterHash: "x", Issued: at(0)}, 2, true, at(5), ""},
		"the same serial by force":              {Record{Serial: 2, ClusterHash: "x", Issued: at(0)}, 2, true, at(5), ""},
		"by force where no time is known":       {Record{Serial: 9, ClusterHash: "x"}, 2, true, at(5), ""},
		"the forced one again, after a cut":     {Record{Serial: 9, ClusterHash: newSystem.hash, RootHash: rootHash, Issued: at(5)}, 2, true, at(5), ""},
		"a forced one that was kept":            {Record{Serial: 9, ClusterHash: "x", Issued: at(6)}, 2, true, at(5), "was signed with --force at 2027-01-15T08:00:05Z, and the last one"},
		"a forced one of the same moment":       {Record{Serial: 9, ClusterHash: "x", Issued: at(5)}, 2, true, at(5), "was signed with --force"},
	} {
		t.Run(name, func(t *testing.T) {
			disk := newDisk(t, oldSystem)
			m := machineOf(t, disk, oldSystem)
			writeRecord(m, tt.last)
			_, err := newSystem.push(t, m, tt.serial, func(h *update.Head) { h.Force, h.Issued = tt.force, tt.issued })
			r, readErr := ReadRecord(m.Record)
			require.NoError(t, readErr)
			if tt.want != "" {
				require.ErrorContains(t, err, tt.want)
				require.Empty(t, disk.ops)
				require.Equal(t, tt.last, r)
				return
			}
			require.NoError(t, err)
			require.Equal(t, max(tt.serial, tt.last.Serial), r.Serial, "what is older than that is refused again")
			require.Equal(t, tt.issued, r.Issued)
		})
	}
}

func TestForceForWhatRunsDoesNotForgetTheSerial(t *testing.T) {
	m := machineOf(t, newDisk(t, oldSystem), oldSystem)
	writeRecord(m, Record{Serial: 9, ClusterHash: "x", State: Failed})
	got, err := oldSystem.push(t, m, 2, func(h *update.Head) { h.Force = true })
	require.NoError(t, err)
	require.True(t, got.Unchanged)
	r, err := ReadRecord(m.Record)
	require.NoError(t, err)
	require.EqualValues(t, 9, r.Serial)
	_, err = newSystem.push(t, m, 8, nil)
	require.ErrorContains(t, err, "is older (8)")
}

// Nobody knows what a node took whose record is damaged: it takes the operator's word, and no other push.
func TestADamagedRecordIsBegunAnewByTheOperatorsWord(t *testing.T) {
	whole, err := json.Marshal(Record{Serial: 9, ClusterHash: "x", State: Kept})
	require.NoError(t, err)
	flipped := bytes.Clone(whole)
	flipped[1] ^= 1
	damages := map[string][]byte{
		"a bit flipped": flipped, "cut short": whole[:len(whole)-1], "empty": {}, "zeros": make([]byte, len(whole)),
		"something behind it": append(bytes.Clone(whole), '{'), "far too long": bytes.Repeat([]byte(" "), maxRecord+1),
	}
	faults.Tried(t, len(damages))
	for name, content := range damages {
		t.Run(name, func(t *testing.T) {
			disk, tpm := newDisk(t, oldSystem), &memory{id: "a", count: 70}
			m := machineOf(t, disk, oldSystem)
			m.Counter = tpm
			require.NoError(t, os.WriteFile(m.Record, content, 0o600))
			var refused Refusal
			_, err := newSystem.push(t, m, 12, nil)
			require.ErrorAs(t, err, &refused)
			require.ErrorContains(t, err, "this node's record of what was pushed to it last is damaged: ")
			require.ErrorContains(t, err, "push the newest folder again with --force")
			require.Empty(t, disk.ops)
			left, err := os.ReadFile(m.Record)
			require.NoError(t, err)
			require.Equal(t, content, left)

			_, err = newSystem.push(t, m, 12, func(h *update.Head) { h.Force, h.Cluster = true, "other" })
			require.ErrorContains(t, err, "is of the cluster")
			_, err = newSystem.push(t, m, 12, func(h *update.Head) { h.Force = true })
			require.NoError(t, err)
			r, err := ReadRecord(m.Record)
			require.NoError(t, err)
			require.EqualValues(t, 12, r.Serial)
			require.Equal(t, Staged, r.State)
			_, err = newSystem.push(t, m, 11, nil)
			require.ErrorContains(t, err, "is older (11)", "the new record counts")

			// So does the TPM, which is bound to the new record.
			_, err = makeSystem("after that", "").push(t, m, 14, nil)
			require.NoError(t, err)
			writeRecord(m, r)
			_, err = newSystem.push(t, m, 13, nil)
			require.ErrorContains(t, err, "this node's TPM has counted (14)")
		})
	}
}

// What runs is known by its record no more, and stays.
func TestADamagedRecordOfWhatRuns(t *testing.T) {
	m := machineOf(t, newDisk(t, oldSystem), oldSystem)
	require.NoError(t, os.WriteFile(m.Record, []byte("{"), 0o600))
	_, err := oldSystem.push(t, m, 3, nil)
	require.ErrorContains(t, err, "is damaged")
	_, err = Back(*m, Wish{})
	require.ErrorContains(t, err, "push its folder and image with --force instead")
	got, err := oldSystem.push(t, m, 4, func(h *update.Head) { h.Force = true })
	require.NoError(t, err)
	require.True(t, got.Unchanged)
	r, err := ReadRecord(m.Record)
	require.NoError(t, err)
	require.EqualValues(t, 4, r.Serial)
}
