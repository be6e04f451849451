package quorum

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/agent/formation"
	"spore/agent/formation/quorum"
	"spore/agent/node"
	"spore/agent/nodetest"
	"spore/agent/paths"
	"spore/agent/pause"
	"spore/agent/verbs"
	"spore/agent/verbs/verbstest"
	"spore/services/kafka"
	"spore/test/faults"
	"spore/test/killat"
	"spore/wire/nodeapi"
)

// broker is kafka-1 of some brokers, all others of which are lost, with data of its own.
type broker struct {
	*node.Machine
	t *testing.T
}

const database = kafka.Metadata + "/database"

func at(t *testing.T, dir string) broker {
	m := node.New("test", paths.Root(dir))
	m.Say = func(text string) { t.Log(text) }
	return broker{m, t}
}

// prepared lays kafka-1 of so many brokers into folders.
func prepared(brokers int) func(t *testing.T, dir string) {
	var first *node.Machine
	return func(t *testing.T, dir string) {
		if first == nil {
			first = nodetest.Brokers(t, []string{"127.0.0.1", "127.0.0.2", "127.0.0.3"}[:brokers]...)["kafka-1"]
		}
		require.NoError(t, os.CopyFS(dir, os.DirFS(string(first.Root))))
		b := at(t, dir)
		require.NoError(t, os.MkdirAll(b.Root.At(kafka.Metadata), 0o700))
		require.NoError(t, os.WriteFile(b.Root.At(database), []byte("former"), 0o600))
		b.starts(formation.Run)
	}
}

// starts is a start of Kafka, which makes data where the formation says so. None of these members has to wait for
// another one.
func (b broker) starts(kinds ...formation.Kind) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), time.Minute)
	defer cancel()
	data := b.Root.At(kafka.Metadata)
	empty := func() (bool, error) {
		_, err := os.Lstat(data)
		return errors.Is(err, fs.ErrNotExist), nil
	}
	kind, err := quorum.Enter(ctx, b.Machine, kafka.Quorum(), empty, func(_ context.Context, p formation.Plan) error {
		require.NoError(b.t, os.RemoveAll(data), "what is unfinished is cleared")
		require.NoError(b.t, os.MkdirAll(data, 0o700))
		return os.WriteFile(b.Root.At(database), []byte(p.Kind), 0o600)
	})
	require.NoError(b.t, err)
	require.Contains(b.t, kinds, kind)
}

// do carries out a verb.
func (b broker) do(verb func(Verbs) verbs.Handler, o nodeapi.Order) error {
	c, n, err := b.Self()
	if err != nil {
		return err
	}
	p := &verbstest.Programs{Answer: map[string]string{"stop": "exit 0", "start": "exit 0"}}
	_, err = verb(Verbs{Run: p.Run})(b.t.Context(), verbs.For(b.Machine, c, n, o, io.Discard))
	return err
}

// mended is what follows a verb that was killed: its unit starts.
func (b broker) mended() (started []string) {
	b.t.Helper()
	require.NoError(b.t, pause.Mend(b.t.Context(), b.Root, func(_ context.Context, unit string) error {
		started = append(started, unit)
		return nil
	}))
	return started
}

// all reads each database of this node, that of Kafka and those that are kept.
func (b broker) all() (out []string) {
	b.t.Helper()
	list, err := filepath.Glob(b.Root.At(kafka.Metadata) + "*/database")
	require.NoError(b.t, err)
	for _, path := range list {
		data, err := os.ReadFile(path)
		require.NoError(b.t, err)
		out = append(out, string(data))
	}
	return out
}

func TestAQuorumWhoseFormingIsKilledAnywhereIsFormedByTheSameOrder(t *testing.T) {
	form := func(v Verbs) verbs.Handler { return v.Form }
	order := nodeapi.Order{Arguments: map[string]string{"quorum": "kafka", "lose": "kafka-1,kafka-2,kafka-3"}, Confirm: "kafka"}
	ends := map[string]int{}
	n := killat.Each(t, prepared(3), func(t *testing.T, dir string) error { return at(t, dir).do(form, order) }, func(t *testing.T, dir string) {
		b := at(t, dir)
		for _, unit := range b.mended() {
			require.Equal(t, "kafka.service", unit)
			ends["mended"]++
		}
		b.starts(formation.Run, formation.Join, formation.Form)
		require.Contains(t, b.all(), "former", "what was there is used or kept")
		if !slices.Contains(b.all(), string(formation.Form)) {
			ends["asked again"]++
			require.NoError(t, b.do(form, order))
			b.starts(formation.Form)
		}
		require.Contains(t, b.all(), string(formation.Form))
		require.Contains(t, b.all(), "former")
		b.starts(formation.Run)
	})
	require.Greater(t, ends["mended"], 3, "its service does not stand still")
	require.Greater(t, ends["asked again"], 3)
	require.Less(t, ends["asked again"], n, "from some point on it goes on by itself")
	faults.Tried(t, n)
}

func TestAMemberWhoseForgettingIsKilledAnywhereIsForgottenByTheSameOrder(t *testing.T) {
	forget := func(v Verbs) verbs.Handler { return v.Forget }
	order := nodeapi.Order{Arguments: map[string]string{"quorum": "kafka"}, Confirm: "kafka-1", Force: "kafka"}
	mended := 0
	n := killat.Each(t, prepared(1), func(t *testing.T, dir string) error { return at(t, dir).do(forget, order) }, func(t *testing.T, dir string) {
		b := at(t, dir)
		mended += len(b.mended())
		require.Equal(t, []string{"former"}, b.all())
		require.NoError(t, b.do(forget, order))
		require.Equal(t, []string{"former"}, b.all())
		require.NoDirExists(t, b.Root.At(kafka.Metadata))
		require.Empty(t, b.mended(), "it is over")
		b.starts(formation.Join)
		require.ElementsMatch(t, []string{"former", string(formation.Join)}, b.all())
	})
	require.Greater(t, mended, 2)
	faults.Tried(t, n)
}

// An order that was noted and cut off has no former data any more: what lies there is being made.
func TestAnOrderThatWasNotedDoesNotKeepWhatIsUnfinished(t *testing.T) {
	dir := t.TempDir()
	prepared(3)(t, dir)
	b := at(t, dir)
	lose := []string{"kafka-1", "kafka-2", "kafka-3"}
	_, err := putAside(b.Root.At(kafka.Metadata))
	require.NoError(t, err)
	require.NoError(t, quorum.Force(t.Context(), b.Machine, io.Discard, "kafka", lose))
	require.NoError(t, os.MkdirAll(b.Root.At(kafka.Metadata), 0o700))
	require.NoError(t, os.WriteFile(b.Root.At(database), []byte("unfinished"), 0o600))
	order := nodeapi.Order{Arguments: map[string]string{"quorum": "kafka", "lose": "kafka-1,kafka-2,kafka-3"}, Confirm: "kafka"}
	require.NoError(t, b.do(func(v Verbs) verbs.Handler { return v.Form }, order))
	require.ElementsMatch(t, []string{"former", "unfinished"}, b.all())
	b.starts(formation.Form)
	require.ElementsMatch(t, []string{"former", string(formation.Form)}, b.all())
}
