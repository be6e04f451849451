package verbs_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/agent/nodetest"
	"spore/agent/verbs"
	"spore/wire/nodeapi"
)

// gone is a caller who went away.
type gone struct{}

func (gone) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestALookFailsWithoutAListener(t *testing.T) {
	m := nodetest.Brokers(t, "127.0.0.1")["kafka-1"]
	text := line(t, verbs.Call{Verb: "dmesg", Roles: nodeapi.Lookers()})
	handle := func(_ context.Context, r *verbs.Run) (string, error) { return "looked", r.Say("one") }
	err := verbs.Serve(t.Context(), m, nodeapi.Looks, map[string]verbs.Handler{"dmesg": handle}, silent(t, text), gone{})
	require.ErrorContains(t, err, "broken pipe")
}

func TestWhatActsGoesOnWithoutAListener(t *testing.T) {
	m := nodetest.Brokers(t, "127.0.0.1")["kafka-1"]
	text := line(t, verbs.Call{Verb: "reboot", Roles: nodeapi.Hands()})
	after := false
	handle := func(_ context.Context, r *verbs.Run) (string, error) {
		r.After(func() error { after = true; return nil })
		return "done", r.Say("one")
	}
	require.NoError(t, verbs.Serve(t.Context(), m, nodeapi.Acts, map[string]verbs.Handler{"reboot": handle}, strings.NewReader(text), gone{}))
	require.True(t, after)
}

func TestWhatFollowsTheAnswerIsLeftOutWhereTheVerbFails(t *testing.T) {
	m := nodetest.Brokers(t, "127.0.0.1")["kafka-1"]
	text := line(t, verbs.Call{Verb: "reboot", Roles: nodeapi.Hands()})
	handle := func(_ context.Context, r *verbs.Run) (string, error) {
		r.After(func() error { t.Error("it was done"); return nil })
		return "", errors.New("no")
	}
	require.NoError(t, verbs.Serve(t.Context(), m, nodeapi.Acts, map[string]verbs.Handler{"reboot": handle}, strings.NewReader(text), gone{}))
}
