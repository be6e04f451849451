package ceph

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	cephnode "spore/services/ceph/node"
	"spore/test/linktrap"
)

// behind is what root would write, give away or tell of if it followed a link.
var behind = []string{fsidFile, "store", "kept/deep"}

// planted is a store whose programs, which run as Ceph's user, lay something in place of what they made.
func planted(t *testing.T, plant func(s *Store)) *Store {
	s, _ := stand(t)
	if os.Geteuid() == 0 {
		s.UID, s.GID = 4242, 4242
	}
	run := s.Run
	s.Run = func(ctx context.Context, in []byte, program string, args ...string) ([]byte, string, error) {
		out, text, err := run(ctx, in, program, args...)
		if program == monProgram {
			plant(s)
		}
		return out, text, err
	}
	return s
}

func all(s *Store) error {
	_ = s.Check()
	_, _ = s.Empty()
	_ = s.Form(context.Background(), []cephnode.Monitor{{Name: "a", Addr: addr("10.0.0.1")}})
	return s.Check()
}

func TestALinkInCephsFolderLeadsNowhere(t *testing.T) {
	for _, name := range []string{"ceph-a", "ceph-a/" + fsidFile, "ceph-a.new", "ceph-a.new/" + fsidFile, "ceph-a.new/store"} {
		for _, kind := range linktrap.Kinds {
			t.Run(name+" is "+kind, func(t *testing.T) {
				for _, before := range []bool{true, false} {
					outside := linktrap.New(t, behind...)
					plant := func(s *Store) { outside.Plant(t, kind, filepath.Join(filepath.Dir(s.Dir), name)) }
					s := planted(t, func(s *Store) {
						if !before { // While root waits for the program to end.
							plant(s)
						}
					})
					if before {
						plant(s)
						if err := s.Check(); err != nil && kind != "another name of a file" {
							require.NotContains(t, err.Error(), "the content of", "what is outside is told")
						}
					}
					if err := all(s); err != nil && kind != "another name of a file" {
						require.NotContains(t, err.Error(), "the content of", "what is outside is told")
					}
					outside.Untouched(t)
				}
			})
		}
	}
}

func TestALinkThatIsSwappedInWhileRootWorksLeadsNowhere(t *testing.T) {
	for _, name := range []string{"ceph-a.new", "ceph-a"} {
		t.Run(name, func(t *testing.T) {
			outside := linktrap.New(t, behind...)
			s, _ := stand(t)
			if os.Geteuid() == 0 {
				s.UID, s.GID = 4242, 4242
			}
			run := s.Run
			s.Run = func(ctx context.Context, in []byte, program string, args ...string) ([]byte, string, error) {
				if program == monProgram { // As Ceph's user, it could not write outside.
					return nil, "", nil
				}
				return run(ctx, in, program, args...)
			}
			outside.While(t, filepath.Join(filepath.Dir(s.Dir), name), 50, func() { _ = all(s) })
			outside.Untouched(t)
		})
	}
}
