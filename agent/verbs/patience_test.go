package verbs

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/wire/nodeapi"
)

func TestFailuresAreBorneUntilTheyLast(t *testing.T) {
	var out strings.Builder
	r := For(nil, nil, nil, nodeapi.Order{}, &out)
	away, other := errors.New("away"), errors.New("no quorum")
	p := Patience{For: time.Hour}
	require.NoError(t, p.Bear(r, nil))
	require.Empty(t, out.String())
	require.NoError(t, p.Bear(r, away))
	require.NoError(t, p.Bear(r, away))
	require.Equal(t, 1, strings.Count(out.String(), "asking again: away"), "it is told once")
	require.NoError(t, p.Bear(r, other))
	require.Contains(t, out.String(), "asking again: no quorum")

	p.since = time.Now().Add(-2 * time.Hour)
	require.ErrorIs(t, p.Bear(r, away), away)
	require.NoError(t, p.Bear(r, nil))
	require.NoError(t, p.Bear(r, away), "one that went well in between begins the time anew")

	usual := Patience{since: time.Now().Add(-119 * time.Second)}
	require.NoError(t, usual.Bear(r, away))
	usual.since = time.Now().Add(-121 * time.Second)
	require.ErrorIs(t, usual.Bear(r, away), away)
}

func TestWordsOfAProgramThatDidNotFailAreThere(t *testing.T) {
	out, words, err := OutputAndWords(Machine(t.Context(), "/bin/sh", "-c", "echo result; echo; echo Error EINVAL: no such pool >&2; echo >&2"))
	require.NoError(t, err)
	require.Equal(t, "result\n\n", string(out))
	require.Equal(t, "Error EINVAL: no such pool", words)
	_, words, err = OutputAndWords(Machine(t.Context(), "/bin/sh", "-c", "true"))
	require.NoError(t, err)
	require.Empty(t, words)
	_, words, err = OutputAndWords(Machine(t.Context(), "/bin/sh", "-c", "echo away >&2; exit 3"))
	require.EqualError(t, err, "/bin/sh: exit status 3: away")
	require.Equal(t, "away", words)
}
