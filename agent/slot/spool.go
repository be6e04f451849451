package slot

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"spore/storage/atomicfile"
	"spore/wire/update"
)

// Wish is what is asked for besides.
type Wish struct {
	// By is who asks, for the journal.
	By string `json:"by,omitempty"`
	// Reboot restarts the machine when the update is written. Without it, the running node takes at once what it can.
	Reboot bool `json:"reboot,omitempty"`
	// DryRun writes nothing, and has what would be sent and changed be answered.
	DryRun bool `json:"dryRun,omitempty"`
	// GiveUp takes a configuration that takes the way back to another root away.
	GiveUp bool `json:"giveUp,omitempty"`
	// Pull says that the node fetched the update by itself: then it has to be new.
	Pull bool `json:"pull,omitempty"`
	// Later leaves the running node as it is, also where it could take the update at once.
	Later bool `json:"later,omitempty"`
	// Back asks for the system before instead of an update; there is no content.
	Back bool `json:"back,omitempty"`
}

// Spool is the directory in which the API of the node, which may write to no disk, leaves updates for a unit of root:
// ID.update, whole since it was renamed to that, ID.wish, and for the answer ID.answer.
type Spool string

// Job is an update in the spool.
type Job struct {
	Wish Wish
	path string
	dir  string
	id   string
}

const maxWish = 4096

// Put leaves an update and returns its id. The caller takes the answer.
func (s Spool) Put(r io.Reader, limit int64, w Wish) (id string, err error) {
	random := make([]byte, 8)
	if _, err := rand.Read(random); err != nil {
		return "", err
	}
	id = hex.EncodeToString(random)
	part := filepath.Join(string(s), id+".part")
	defer func() {
		if err != nil {
			os.Remove(part)
		}
	}()
	f, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", err
	}
	n, err := io.Copy(f, io.LimitReader(r, limit+1))
	if err = errors.Join(err, f.Close()); err != nil {
		return "", err
	}
	if n > limit {
		return "", fmt.Errorf("it has more than %d bytes", limit)
	}
	if err := atomicfile.WriteJSON(filepath.Join(string(s), id+".wish"), w); err != nil {
		return "", err
	}
	return id, os.Rename(part, filepath.Join(string(s), id+".update"))
}

// Answered takes the answer to an update; nil while there is none.
func (s Spool) Answered(id string) (*update.Answer, error) {
	name := filepath.Join(string(s), id+".answer")
	var a update.Answer
	if err := atomicfile.ReadJSON(name, &a); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	return &a, os.Remove(name)
}

// Drop takes an update back that nobody waits for any more.
func (s Spool) Drop(id string) {
	for _, end := range []string{".update", ".wish", ".answer", ".part"} {
		os.Remove(filepath.Join(string(s), id+end))
	}
}

// Next is the update that has waited longest; nil when there is none. The spool is another user's: names, links and
// content may be anything.
func (s Spool) Next() (*Job, error) {
	entries, err := os.ReadDir(string(s))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for updates: %w", err)
	}
	type waiting struct {
		id   string
		when int64
	}
	var list []waiting
	for _, e := range entries {
		id, ok := strings.CutSuffix(e.Name(), ".update")
		info, err := e.Info()
		if ok && err == nil {
			list = append(list, waiting{id, info.ModTime().UnixNano()})
		}
	}
	if len(list) == 0 {
		return nil, nil
	}
	slices.SortFunc(list, func(a, b waiting) int {
		if a.when != b.when {
			return int(min(max(a.when-b.when, -1), 1))
		}
		return strings.Compare(a.id, b.id)
	})
	j := &Job{dir: string(s), id: list[0].id, path: filepath.Join(string(s), list[0].id+".update")}
	data, err := readUntrusted(filepath.Join(j.dir, j.id+".wish"), maxWish)
	if err == nil {
		err = json.Unmarshal(data, &j.Wish)
	}
	if err != nil {
		j.Wish = Wish{}
	}
	return j, nil
}

// CopyTo copies the update, at most limit bytes.
func (j *Job) CopyTo(w io.Writer, limit int64) error {
	f, err := openUntrusted(j.path)
	if err != nil {
		return err
	}
	defer f.Close()
	n, err := io.Copy(w, io.LimitReader(f, limit+1))
	if err == nil && n > limit {
		err = fmt.Errorf("it has more than %d bytes", limit)
	}
	return err
}

// Discard removes the update.
func (j *Job) Discard() {
	for _, end := range []string{".update", ".wish"} {
		os.RemoveAll(filepath.Join(j.dir, j.id+end))
	}
}

// Answer leaves what became of it.
func (j *Job) Answer(a update.Answer) error {
	j.Discard()
	return atomicfile.WriteJSON(filepath.Join(j.dir, j.id+".answer"), a)
}

func openUntrusted(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a file", path)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func readUntrusted(path string, limit int64) ([]byte, error) {
	f, err := openUntrusted(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, limit))
}
