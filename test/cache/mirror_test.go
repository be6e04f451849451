//go:build integration

package cache

import (
	"bufio"
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/store"
	"spore/builder/store/kind"
)

// mirror is a Debian mirror on the loopback interface, with what is in a store: genuine files with genuine signatures, so that
// the program under test needs no other keyring, and the network is not asked.
type mirror struct {
	url   string
	files map[string]string // name below dists or pool: path in the store
	byKey map[string]string // SHA-256: path in the store

	mu    sync.Mutex
	spoil func(w http.ResponseWriter, r *http.Request, data []byte) bool
}

func newMirror(t *testing.T, dir string) *mirror {
	t.Helper()
	m := &mirror{files: map[string]string{}, byKey: map[string]string{}}
	objects, err := store.List(dir)
	require.NoError(t, err)
	for _, o := range objects {
		m.byKey[o.Key.String()] = o.Path
	}
	for _, o := range objects {
		k, err := kind.OfFile(o.Path)
		require.NoError(t, err)
		if k != kind.Indexes {
			continue
		}
		data, err := os.ReadFile(o.Path)
		require.NoError(t, err)
		switch {
		case bytes.HasPrefix(data, []byte("-----BEGIN PGP")):
			// Those used later come later, and are the ones that the store has everything of.
			m.files["dists/"+field(data, "Codename")+"/InRelease"] = o.Path
		case bytes.HasPrefix(data, []byte("Package: ")):
			m.addPool(data)
		}
	}
	// All tests ask it; it ends with the process.
	m.url = httptest.NewServer(http.HandlerFunc(m.serve)).URL
	return m
}

// field is a field of the first paragraph of a control file.
func field(data []byte, name string) string {
	for line := range strings.Lines(string(data)) {
		if v, ok := strings.CutPrefix(line, name+": "); ok {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

// addPool takes the names of packages from an index.
func (m *mirror) addPool(index []byte) {
	var name string
	s := bufio.NewScanner(bytes.NewReader(index))
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		if v, ok := strings.CutPrefix(s.Text(), "Filename: "); ok {
			name = v
		}
		if v, ok := strings.CutPrefix(s.Text(), "SHA256: "); ok && m.byKey[v] != "" {
			m.files[name] = m.byKey[v]
		}
	}
}

// set changes what the mirror does; nil is a good mirror.
func (m *mirror) set(spoil func(w http.ResponseWriter, r *http.Request, data []byte) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.spoil = spoil
}

func (m *mirror) serve(w http.ResponseWriter, r *http.Request) {
	_, name, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/") // debian/ or debian-security/
	m.mu.Lock()
	spoil := m.spoil
	m.mu.Unlock()
	var data []byte
	if file := m.files[name]; file != "" {
		data, _ = os.ReadFile(file)
	} else if _, sum, ok := strings.Cut(name, "/by-hash/SHA256/"); ok {
		data, _ = os.ReadFile(m.byKey[sum])
	}
	switch {
	case data == nil:
		http.NotFound(w, r)
	case spoil != nil && spoil(w, r, data):
	default:
		_, _ = w.Write(data)
	}
}
