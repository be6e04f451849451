package snapshot

import (
	"context"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/test/linktrap"
	"spore/wire/nodeapi"
)

// all is all that root and the node's API do in the directory of snapshots, and what the API hands out.
func all(t *testing.T, d Dir, n Name) string {
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if unlock, err := d.Lock(ctx); err == nil {
		if w, err := d.Draft(); err == nil {
			_, _ = io.WriteString(w, "content")
			_ = w.Commit(Name{Taken: noon, Revision: 9, Node: "master-1", Hash: w.Hash()})
			w.Discard()
		}
		unlock()
	}
	_ = d.Check(n)
	_, _ = d.Room(1, noon, noon)
	answer := httptest.NewRecorder()
	Handler(d).ServeHTTP(answer, httptest.NewRequestWithContext(ctx, "GET", nodeapi.SnapshotsPath+"/"+n.String(), nil))
	_, _ = d.Prune(Keep{}, noon)
	return answer.Body.String()
}

// The user of the snapshots can lay anything into their directory, for root's commands and for the node's API.
func TestALinkAmongSnapshotsLeadsNowhere(t *testing.T) {
	n := Name{Taken: noon, Revision: 7, Node: "master-1", Hash: digits}
	for _, name := range []string{".lock", n.String(), draftPrefix + "1"} {
		for _, kind := range linktrap.Kinds {
			t.Run(name+" is "+kind, func(t *testing.T) {
				outside := linktrap.New(t)
				d := Dir{Path: filepath.Join(t.TempDir(), "snapshots")}
				require.NoError(t, os.Mkdir(d.Path, 0o755))
				if os.Geteuid() == 0 {
					require.NoError(t, os.Chown(d.Path, 4242, 4242))
				}
				outside.Plant(t, kind, filepath.Join(d.Path, name))
				answer := all(t, d, n)
				outside.Untouched(t)
				if kind != "another name of a file" { // That one's content is the user's to give out.
					require.NotContains(t, answer, "the content of", "the API hands out what is outside")
				}
			})
		}
	}
}

func TestALinkThatIsSwappedInAmongSnapshotsLeadsNowhere(t *testing.T) {
	outside := linktrap.New(t)
	d := Dir{Path: filepath.Join(t.TempDir(), "snapshots")}
	require.NoError(t, os.Mkdir(d.Path, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(d.Path, ".lock"), nil, 0o600))
	if os.Geteuid() == 0 {
		require.NoError(t, os.Chown(d.Path, 4242, 4242))
	}
	outside.While(t, filepath.Join(d.Path, ".lock"), 50, func() { all(t, d, Name{Taken: noon, Revision: 7, Node: "master-1", Hash: digits}) })
	outside.Untouched(t)
}

func TestAPipeAmongSnapshotsIsNotWaitedFor(t *testing.T) {
	d := Dir{Path: t.TempDir()}
	n := Name{Taken: noon, Revision: 7, Node: "master-1", Hash: digits}
	linktrap.Pipe(t, d.At(n))
	require.ErrorContains(t, d.Check(n), "is not a file")
	linktrap.Pipe(t, filepath.Join(d.Path, ".lock"))
	_, err := d.Lock(t.Context())
	if os.Geteuid() == 0 {
		require.ErrorContains(t, err, "is not a file with one name")
	}
}
