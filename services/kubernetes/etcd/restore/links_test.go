package restore

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/agent/paths"
	"spore/test/linktrap"
)

// What is restored is made where etcd's user cannot write; of its folder, root only moves names.
func TestALinkInEtcdsFolderLeadsNowhereInARestore(t *testing.T) {
	for _, name := range []string{"member", "member/snap", "given-up-20261122T120000Z"} {
		for _, kind := range linktrap.Kinds {
			t.Run(name+" is "+kind, func(t *testing.T) {
				outside := linktrap.New(t, "snap/db", "wal/0.wal")
				p, c := machine(t, true)
				if os.Geteuid() == 0 {
					require.NoError(t, os.Chown(p.Root.At(paths.Etcd), 4242, 4242))
				}
				prepare(t, p)
				outside.Plant(t, kind, filepath.Join(p.Root.At(paths.Etcd), name))
				end, err := p.Begin()
				require.NoError(t, err)
				defer end()
				prepare(t, p)
				require.NoError(t, p.Commit(c))
				_, _, _ = p.Resume()
				outside.Untouched(t)
			})
		}
	}
}

func TestALinkThatIsSwappedInDuringARestoreLeadsNowhere(t *testing.T) {
	outside := linktrap.New(t, "snap/db")
	p, c := machine(t, true)
	if os.Geteuid() == 0 {
		require.NoError(t, os.Chown(p.Root.At(paths.Etcd), 4242, 4242))
	}
	outside.While(t, filepath.Join(p.Root.At(paths.Etcd), "member"), 20, func() {
		prepare(t, p)
		_ = p.Commit(c)
		_, _, _ = p.Resume()
	})
	outside.Untouched(t)
}
