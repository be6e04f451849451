package verbs_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/agent/node"
	"spore/agent/nodetest"
	"spore/agent/verbs"
	"spore/wire/nodeapi"
)

// serve answers a call as a unit does, with a handler of dmesg.
func serve(t *testing.T, m *node.Machine, kind nodeapi.Kind, in io.Reader, handle verbs.Handler) (events []nodeapi.Event, done string, err error) {
	t.Helper()
	var out strings.Builder
	require.NoError(t, verbs.Serve(t.Context(), m, kind, map[string]verbs.Handler{"dmesg": handle}, in, &out))
	done, err = nodeapi.ReadEvents(strings.NewReader(out.String()), func(e nodeapi.Event) error {
		events = append(events, e)
		return nil
	})
	return events, done, err
}

// silent is what is read from a socket on which nothing follows and that nobody closes.
func silent(t *testing.T, text string) io.Reader {
	r, w := io.Pipe()
	t.Cleanup(func() { _ = w.Close() })
	return io.MultiReader(strings.NewReader(text), r)
}

func line(t *testing.T, c verbs.Call) string {
	t.Helper()
	data, err := json.Marshal(c)
	require.NoError(t, err)
	return string(data) + "\n"
}

func TestACallIsCheckedAgainWhereTheRightsAre(t *testing.T) {
	m := nodetest.Brokers(t, "127.0.0.1")["kafka-1"]
	reader := []nodeapi.Role{nodeapi.Reader}
	handle := func(_ context.Context, r *verbs.Run) (string, error) {
		require.Equal(t, "kafka-1", r.Node.Name)
		require.NoError(t, r.Say("one of %d", 2))
		require.NoError(t, r.Result(map[string]string{"lines": r.Argument("lines", "7")}))
		return "looked for " + r.Caller, nil
	}
	good := verbs.Call{Verb: "dmesg", Caller: "anna", Roles: reader}
	events, done, err := serve(t, m, nodeapi.Looks, silent(t, line(t, good)), handle)
	require.NoError(t, err)
	require.Equal(t, "looked for anna", done)
	require.Equal(t, []nodeapi.Event{{Say: "one of 2"}, {Result: []byte(`{"lines":"7"}`)}}, events)

	never := func(context.Context, *verbs.Run) (string, error) { t.Error("it was called"); return "", nil }
	for _, tc := range []struct {
		name, text, want string
		kind             nodeapi.Kind
	}{
		{"of the other kind", line(t, good), `there is no verb "dmesg" here`, nodeapi.Acts},
		{"unknown", line(t, verbs.Call{Verb: "fly", Roles: reader}), `there is no verb "fly" here`, nodeapi.Looks},
		{"of a node", line(t, verbs.Call{Verb: "dmesg", Roles: []nodeapi.Role{nodeapi.Node}}), "dmesg is not for this certificate", nodeapi.Looks},
		{"of nobody", line(t, verbs.Call{Verb: "dmesg"}), "dmesg is not for this certificate", nodeapi.Looks},
		{"a bad order", line(t, verbs.Call{Verb: "dmesg", Roles: reader, Order: nodeapi.Order{Force: "etcd"}}), "dmesg cannot be forced", nodeapi.Looks},
		{"no JSON", "dmesg\n", "the call is malformed", nodeapi.Looks},
		{"cut off", `{"verb":`, "the call was cut off or is too large", nodeapi.Looks},
		{"endless", strings.Repeat("x", 1<<20) + "\n", "the call was cut off or is too large", nodeapi.Looks},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, _, err := serve(t, m, tc.kind, strings.NewReader(tc.text), never)
			require.ErrorContains(t, err, tc.want)
		})
	}
}

func TestWhatAVerbSaysOfItsFailureIsToldToTheCaller(t *testing.T) {
	m := nodetest.Brokers(t, "127.0.0.1")["kafka-1"]
	text := line(t, verbs.Call{Verb: "dmesg", Roles: nodeapi.Lookers()})
	_, _, err := serve(t, m, nodeapi.Looks, silent(t, text), func(context.Context, *verbs.Run) (string, error) {
		return "", errors.New("the kernel has no log")
	})
	require.EqualError(t, err, "the kernel has no log")
}

func TestWhatIsDoneInTheEndIsDoneHoweverLongItTook(t *testing.T) {
	m := nodetest.Brokers(t, "127.0.0.1")["kafka-1"]
	late := func(t *testing.T, result error) (string, error) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		var out strings.Builder
		in := silent(t, line(t, verbs.Call{Verb: "dmesg", Roles: nodeapi.Lookers()}))
		handle := func(ctx context.Context, _ *verbs.Run) (string, error) {
			<-ctx.Done()
			return "", result
		}
		require.NoError(t, verbs.Serve(ctx, m, nodeapi.Looks, map[string]verbs.Handler{"dmesg": handle}, in, &out))
		return nodeapi.ReadEvents(strings.NewReader(out.String()), func(nodeapi.Event) error { return nil })
	}
	done, err := late(t, nil)
	require.NoError(t, err)
	require.Equal(t, "done", done, "a verb that says nothing has ended all the same")
	_, err = late(t, errors.New("the disk is busy"))
	require.EqualError(t, err, "dmesg was not done within 1m0s: the disk is busy")
}

func TestALookEndsWithItsCaller(t *testing.T) {
	m := nodetest.Brokers(t, "127.0.0.1")["kafka-1"]
	r, w := io.Pipe()
	text := line(t, verbs.Call{Verb: "dmesg", Roles: nodeapi.Lookers()})
	go func() { _, _ = io.WriteString(w, text) }()
	_, _, err := serve(t, m, nodeapi.Looks, r, func(ctx context.Context, _ *verbs.Run) (string, error) {
		_ = w.Close()
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-time.After(time.Minute):
			return "it went on", nil
		}
	})
	require.EqualError(t, err, "context canceled")
}

func FuzzParseCall(f *testing.F) {
	f.Add([]byte(`{"verb":"dmesg","order":{"dryRun":true},"caller":"anna","roles":["spore:reader"]}`))
	f.Fuzz(func(_ *testing.T, data []byte) { _, _ = verbs.ParseCall(data) })
}

func TestWhatIsUnderWayIsNotBegunTwice(t *testing.T) {
	m := nodetest.Brokers(t, "127.0.0.1")["kafka-1"]
	call := line(t, verbs.Call{Verb: "etcd-snapshot", Roles: nodeapi.Owners()})
	acts := func(handle verbs.Handler) error {
		var out strings.Builder
		require.NoError(t, verbs.Serve(t.Context(), m, nodeapi.Acts, map[string]verbs.Handler{"etcd-snapshot": handle}, strings.NewReader(call), &out))
		_, err := nodeapi.ReadEvents(strings.NewReader(out.String()), func(nodeapi.Event) error { return nil })
		return err
	}
	done := func(context.Context, *verbs.Run) (string, error) { return "done", nil }
	require.NoError(t, acts(func(context.Context, *verbs.Run) (string, error) {
		require.ErrorContains(t, acts(done), "etcd is under way already")
		return "done", nil
	}))
	require.NoError(t, acts(done), "and then it is")
}
