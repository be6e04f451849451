package apt

import (
	"crypto/sha256"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/builder/apt/apttest"
	"spore/builder/store"
)

// weeksLater is the archive that was pinned before the mirror moved on, with an empty store, and what was pinned.
func weeksLater(t *testing.T, f *fixture) (*Pinned, []Package) {
	t.Helper()
	a := f.updated(t)
	closure, alone, err := a.Choose([]string{"broker"}, []string{"libone"})
	require.NoError(t, err)
	pins := Pins{closure, alone, a.Suites()}

	f.Date = apttest.Time.AddDate(0, 1, 0)
	f.Deb(t, "trixie-security", "broker", "2.0-1+deb13u1", "Pre-Depends: base", "Depends: libone, libtwo")
	f.Deb(t, "trixie-security", "libtwo", "1.0")
	f.Publish(t)
	f.opts.Now = clock(31 * 24 * time.Hour)
	st, err := store.Open(t.TempDir())
	require.NoError(t, err)
	f.opts.Store = st
	_, newest := f.resolved(t, "broker")
	require.Len(t, newest, 4, "the mirror did move on")

	st, err = store.Open(t.TempDir())
	require.NoError(t, err)
	f.opts.Store = st
	f.Requests()
	return f.archive(t).Pin(pins), closure
}

func TestPinnedPackagesAreTakenFromAMirrorThatMovedOn(t *testing.T) {
	f := newFixture(t)
	p, before := weeksLater(t, f)
	require.NoError(t, p.Update(t.Context()))
	closure, alone, err := p.Choose([]string{"broker"}, []string{"libone", "other"})
	require.NoError(t, err)
	require.Equal(t, before, closure)
	require.Equal(t, map[string]string{"libone": "1.0+deb13u1"}, versions(alone))
	require.Equal(t, apttest.Time, p.Date())
	require.Len(t, p.Suites(), 3)

	require.NoError(t, p.Fetch(t.Context(), closure))
	for _, r := range f.Requests() {
		require.True(t, strings.HasPrefix(r.Path, "pool/"), "%s: no index is read", r.Path)
	}
	for _, q := range closure {
		file, err := p.Open(q)
		require.NoError(t, err)
		data, err := io.ReadAll(file)
		require.NoError(t, err)
		require.NoError(t, file.Close())
		require.Equal(t, q.SHA256, fmt.Sprintf("%x", sha256.Sum256(data)))
	}
	require.NoError(t, p.Fetch(t.Context(), closure))
	require.Empty(t, f.Requests(), "what the store has is not asked for")
}

func TestPinnedPackagesAreFoundWhereAPointReleasePutsThem(t *testing.T) {
	f := newFixture(t)
	p, closure := weeksLater(t, f)
	for i, q := range closure {
		if q.Name == "libone" {
			closure[i].Filename = "pool/updates/main/libone/" + q.Filename[strings.LastIndex(q.Filename, "/")+1:]
		}
	}
	require.NoError(t, p.Fetch(t.Context(), closure))
}

func TestPinnedPackagesThatAreGoneAreAllNamed(t *testing.T) {
	f := newFixture(t)
	p, closure := weeksLater(t, f)
	for _, q := range closure {
		if q.Name != "base" {
			f.Remove(q.Filename)
		}
	}
	err := p.Fetch(t.Context(), closure)
	require.EqualError(t, err, "packages broker 2.0-1, libone 1.0+deb13u1 are neither in the store nor on the mirrors any more; "+
		"set mirror and securityMirror in image.yaml to an archive that keeps old versions (a snapshot of 2028-01-01), build where the store has them, "+
		"or take what there is now with spore lock --update")
	require.NoError(t, p.Fetch(t.Context(), closure[:1]), "base was kept")
	require.ErrorContains(t, p.Fetch(t.Context(), closure[2:]), "package libone 1.0+deb13u1 is neither in the store nor on the mirrors any more")
}

func TestAFileThatIsNotThePinnedOneIsRefused(t *testing.T) {
	for name, change := range map[string]func([]byte) []byte{
		"other bytes": func(b []byte) []byte { b[len(b)-1] ^= 1; return b },
		"more bytes":  func(b []byte) []byte { return append(b, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			p, closure := weeksLater(t, f)
			f.Put(closure[0].Filename, change(append([]byte{}, f.File(closure[0].Filename)...)))
			err := p.Fetch(t.Context(), closure)
			require.ErrorContains(t, err, "download base")
			require.NotContains(t, err.Error(), "any more", "it is there, and is not what was pinned")
			require.False(t, f.opts.Store.Has(closure[0].Key()))
		})
	}
}

func TestAMirrorThatCannotBeAskedMayHaveAPackage(t *testing.T) {
	f := newFixture(t)
	p, closure := weeksLater(t, f)
	f.Remove(closure[0].Filename)
	f.opts.SecurityMirror = "http://127.0.0.1:1/debian-security"
	p.Archive = f.archive(t)
	err := p.Fetch(t.Context(), closure[:1])
	require.ErrorContains(t, err, "download base")
	require.ErrorContains(t, err, "refused")
	require.NotContains(t, err.Error(), "any more")
}

func TestPinnedPackagesOfflineComeFromTheStoreAlone(t *testing.T) {
	f := newFixture(t)
	p, closure := weeksLater(t, f)
	require.NoError(t, p.Fetch(t.Context(), closure[:1]))
	f.opts.Offline = true
	p.Archive = f.archive(t)
	f.Requests()
	require.NoError(t, p.Fetch(t.Context(), closure[:1]))
	require.ErrorContains(t, p.Fetch(t.Context(), closure), "package broker 2.0-1 is not in the store")
	require.Empty(t, f.Requests())
}

func TestTheNewestOfANameIsChosenWithoutWhatItNeeds(t *testing.T) {
	f := newFixture(t)
	for range 2 { // the second time from the store
		closure, alone, err := f.updated(t).Choose([]string{"base"}, []string{"libone", "broker", "nothing", "broker"})
		require.NoError(t, err)
		require.Equal(t, map[string]string{"base": "1.0", "libone": "1.0+deb13u1"}, versions(closure))
		require.Equal(t, map[string]string{"broker": "2.0-1", "libone": "1.0+deb13u1"}, versions(alone))
		require.Equal(t, "trixie-security", alone[1].Suite)
	}
}
