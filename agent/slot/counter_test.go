package slot

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/agent/nvcounter"
	"spore/wire/update"
)

// memory is a TPM with a counter.
type memory struct {
	id     string
	count  uint64
	before func()
	fails  error
}

func (m *memory) ID() string             { return m.id }
func (m *memory) Count() (uint64, error) { return m.count, m.fails }

func (m *memory) Increment() error {
	if m.before != nil {
		m.before()
	}
	if m.fails == nil {
		m.count++
	}
	return m.fails
}

func TestARecordThatWasPutBackLetsNothingOlderIn(t *testing.T) {
	second := makeSystem("what is pushed after that", "")
	tpm := &memory{id: "a", count: 70}
	m := machineOf(t, newDisk(t, oldSystem), oldSystem)
	m.Counter = tpm
	_, err := newSystem.push(t, m, 5, nil)
	require.NoError(t, err)
	older, err := ReadRecord(m.Record)
	require.NoError(t, err)
	require.Equal(t, &nvcounter.Bound{TPM: "a", Count: 70, Serial: 5}, older.Counted)
	_, err = second.push(t, m, 8, nil)
	require.NoError(t, err)

	writeRecord(m, older)
	disk := newDisk(t, oldSystem)
	m.Open = machineOf(t, disk, oldSystem).Open
	_, err = second.push(t, m, 7, nil)
	require.ErrorContains(t, err, "is older (7) than the last one that this node's TPM has counted (8), although the node's state knows of 5 alone")
	require.Empty(t, disk.ops)
	_, err = second.push(t, m, 8, nil)
	require.NoError(t, err, "the last one is not older than itself")
	writeRecord(m, older)
	_, err = second.push(t, m, 9, nil)
	require.NoError(t, err)
	require.EqualValues(t, 74, tpm.count)
}

func TestTheRecordIsWrittenBeforeTheTPMCounts(t *testing.T) {
	m := machineOf(t, newDisk(t, oldSystem), oldSystem)
	tpm := &memory{id: "a", count: 70}
	m.Counter = tpm
	writeRecord(m, Record{Serial: 4, ClusterHash: "x", State: Failed, Counted: &nvcounter.Bound{TPM: "a", Count: 70, Serial: 4}})
	looked := false
	tpm.before = func() {
		r, err := ReadRecord(m.Record)
		require.NoError(t, err)
		require.EqualValues(t, 5, r.Serial)
		looked, tpm.fails = true, errors.New("power is lost")
	}
	_, err := newSystem.push(t, m, 5, nil)
	require.ErrorContains(t, err, "power is lost")
	require.True(t, looked)
	tpm.before, tpm.fails = nil, nil
	_, err = newSystem.push(t, m, 5, nil)
	require.NoError(t, err, "the same is taken after the cut")
	require.EqualValues(t, 71, tpm.count)
}

// A trial that failed, or a push of what runs, does not shut the node out of its own configuration.
func TestWhatRunsIsTakenAgainAfterATrialThatFailed(t *testing.T) {
	m := machineOf(t, newDisk(t, oldSystem), oldSystem)
	m.Counter = &memory{id: "a"}
	_, err := newSystem.push(t, m, 5, nil)
	require.NoError(t, err)
	r, err := ReadRecord(m.Record)
	require.NoError(t, err)
	r.State = Failed
	writeRecord(m, r)
	got, err := oldSystem.push(t, m, 6, nil)
	require.NoError(t, err)
	require.True(t, got.Unchanged)
	r, err = ReadRecord(m.Record)
	require.NoError(t, err)
	taken, lost := m.counted(r)
	require.NoError(t, lost)
	require.EqualValues(t, 6, taken)
}

func TestATPMThatCountedAndDoesNotAnyMore(t *testing.T) {
	bound := &nvcounter.Bound{TPM: "a", Count: 70, Serial: 4}
	at := time.Unix(1_800_000_000, 0).UTC()
	for name, tt := range map[string]struct {
		counted *nvcounter.Bound
		tpm     nvcounter.Device
		no      error
		force   bool
		issued  time.Time
		want    string
		keeps   bool
	}{
		"never counted, no TPM":               {nil, nil, nil, false, at, "", false},
		"never counted, the owner's password": {nil, nil, errors.New("a password"), false, at, "", false},
		"counted, no TPM":                     {bound, nil, nil, false, at, "does not say how far it got: the machine has no TPM", false},
		"counted, the TPM is broken":          {bound, nil, errors.New("no answer"), false, at, "does not say how far it got: no answer", false},
		"counted, it does not read":           {bound, &memory{id: "a", fails: errors.New("worn out")}, nil, false, at, "does not say how far it got: worn out", false},
		"the same by force":                   {bound, nil, nil, true, at, "", false},
		"by force, it does not read":          {bound, &memory{id: "a", fails: errors.New("worn out")}, nil, true, at, "", false},
		"a forced one that was kept":          {bound, nil, nil, true, at.Add(-time.Hour), "was signed with --force", false},
		"another board":                       {bound, &memory{id: "b", count: 9000}, nil, false, at, "", true},
		"cleared, and far ahead":              {bound, &memory{id: "a", count: 9000}, nil, false, at, "has counted (8934)", false},
		"the same by the operator's word":     {bound, &memory{id: "a", count: 9000}, nil, true, at, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			disk := newDisk(t, oldSystem)
			m := machineOf(t, disk, oldSystem)
			m.Counter, m.NoCounter = tt.tpm, tt.no
			last := Record{Serial: 4, ClusterHash: "x", Issued: at.Add(-time.Minute), State: Failed, Counted: tt.counted}
			writeRecord(m, last)
			_, err := newSystem.push(t, m, 5, func(h *update.Head) { h.Force, h.Issued = tt.force, tt.issued })
			r, readErr := ReadRecord(m.Record)
			require.NoError(t, readErr)
			if tt.want != "" {
				require.ErrorContains(t, err, tt.want)
				require.Empty(t, disk.ops)
				require.Equal(t, last, r)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tt.keeps, r.Counted != nil)
		})
	}
}
