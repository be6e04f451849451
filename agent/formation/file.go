package formation

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"spore/storage/atomicfile"
)

// errDamaged is in the error of a file that cannot be understood.
var errDamaged = errors.New("it is damaged")

// Read reads a member's file; nil when there is none.
func Read(dir, service string) (*State, error) {
	path := filepath.Join(dir, service+".json")
	data, err := atomicfile.ReadLimited(path, maxAnswer)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read what is known of the formation: %w", err)
	}
	s := new(State)
	if err := json.Unmarshal(data, s); err != nil {
		return nil, fmt.Errorf("read %s: %w: %w", path, errDamaged, err)
	}
	if err := s.check(); err != nil {
		return nil, fmt.Errorf("read %s: %w: %w", path, errDamaged, err)
	}
	return s, nil
}

func (s *State) check() error {
	if s.Cluster == "" || s.Node == "" || !validNonce(s.Nonce) {
		return errors.New("cluster, node or nonce is missing")
	}
	if s.Record != nil {
		return s.Record.check(s.Node, s.Nonce)
	}
	return nil
}

// change reads a member's file, has it changed, and returns when the new one would survive a power cut. It excludes
// others that do the same: the gate, and the operator's command.
func change(dir, service string, how func(*State) (State, error)) (State, error) {
	if err := makeDir(dir); err != nil {
		return State{}, err
	}
	lock, err := os.OpenFile(filepath.Join(dir, "."+service+".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return State{}, fmt.Errorf("lock the formation of %s: %w", service, err)
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return State{}, fmt.Errorf("lock the formation of %s: %w", service, err)
	}
	before, err := Read(dir, service)
	if err != nil {
		return State{}, err
	}
	s, err := how(before)
	if err != nil {
		return State{}, err
	}
	if before != nil && bytes.Equal(encode(*before), encode(s)) {
		return s, nil
	}
	path := filepath.Join(dir, service+".json")
	if err := atomicfile.Clear(path); err != nil {
		return s, err
	}
	return s, atomicfile.WriteDurable(path, encode(s), 0o644)
}

// encode is the content of a member's file.
func encode(s State) []byte {
	data, _ := json.Marshal(s) // strings, lists and maps of strings cannot fail
	return append(data, '\n')
}

// makeDir makes the directory such that it survives a power cut: a lost record would have its member join what it
// formed. Others can read it, whatever the umask of the unit that the gate runs in: who answers for this member is
// another user.
func makeDir(dir string) error {
	const mode = 0o755
	if st, err := os.Stat(dir); err == nil && st.Mode().Perm() == mode {
		return nil
	}
	if err := os.MkdirAll(dir, mode); err != nil {
		return fmt.Errorf("make the directory of formations: %w", err)
	}
	if err := os.Chmod(dir, mode); err != nil {
		return fmt.Errorf("make the directory of formations: %w", err)
	}
	parent, err := os.Open(filepath.Dir(dir))
	if err != nil {
		return fmt.Errorf("make the directory of formations: %w", err)
	}
	defer parent.Close()
	return parent.Sync()
}
