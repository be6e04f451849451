// Package apttest is a Debian archive in memory, served over HTTP on the loopback interface, with a signing key of its
// own. It can be made to lie.
package apttest

import (
	"bytes"
	"crypto"
	"crypto/sha256"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp/clearsign"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
	openpgp "github.com/ProtonMail/go-crypto/openpgp/v2"

	"spore/builder/deb"
	"spore/builder/deb/debtest"
)

// Time is when the archive was published, unless Date says otherwise.
var Time = time.Date(2028, 1, 1, 12, 0, 0, 0, time.UTC)

// Suites are those that Publish makes.
var Suites = []string{"trixie", "trixie-updates", "trixie-security"}

// Mirror is an archive. Its fields count when Publish is called.
type Mirror struct {
	// URL is the base of the main archive and of the security archive.
	URL string
	// Key signs; Keyring is its public part.
	Key     *openpgp.Entity
	Keyring []byte
	// Date and ValidUntil of the InRelease files; ValidUntil is left out when zero.
	Date, ValidUntil time.Time
	// Release changes the text of a suite's release file before it is signed.
	Release func(suite, text string) string

	mu       sync.Mutex
	files    map[string][]byte
	requests []Request
	answer   func(w http.ResponseWriter, r *http.Request) bool
	packages map[string][]string // "SUITE COMPONENT" to entries
}

// New starts an empty mirror, which ends with the test.
func New(t testing.TB) *Mirror {
	t.Helper()
	m := &Mirror{Date: Time, files: map[string][]byte{}, packages: map[string][]string{}}
	m.Key = NewKey(t)
	m.Keyring = PublicKey(t, m.Key)
	server := httptest.NewServer(http.HandlerFunc(m.serve))
	t.Cleanup(server.Close)
	m.URL = server.URL + "/debian"
	return m
}

// NewKey makes a signing key.
func NewKey(t testing.TB) *openpgp.Entity {
	t.Helper()
	e, err := openpgp.NewEntity("Archive of a test", "", "archive@example.test", keyConfig(Time.AddDate(-1, 0, 0)))
	must(t, err)
	return e
}

func keyConfig(at time.Time) *packet.Config {
	return &packet.Config{Algorithm: packet.PubKeyAlgoEdDSA, DefaultHash: crypto.SHA512, Time: func() time.Time { return at }}
}

// PublicKey is the binary certificate of a key.
func PublicKey(t testing.TB, e *openpgp.Entity) []byte {
	t.Helper()
	var b bytes.Buffer
	must(t, e.Serialize(&b))
	return b.Bytes()
}

// Sign makes a clearsigned message.
func Sign(t testing.TB, key *openpgp.Entity, text string, at time.Time) []byte {
	t.Helper()
	var b bytes.Buffer
	signer, ok := key.SigningKey(at, keyConfig(at))
	if !ok {
		t.Fatal("the key cannot sign")
	}
	w, err := clearsign.Encode(&b, signer.PrivateKey, keyConfig(at))
	must(t, err)
	_, err = w.Write([]byte(text))
	must(t, err)
	must(t, w.Close())
	return append(b.Bytes(), '\n')
}

// Deb is a package of the archive with a small file in it. More holds further lines of its control file.
func (m *Mirror) Deb(t testing.TB, suite, name, version string, more ...string) []byte {
	t.Helper()
	data := debtest.Deb{
		Control: debtest.Control(name, version, more...), Compress: "xz",
		Data: []debtest.Entry{{Name: "./"}, {Name: "./usr/"}, {Name: "./usr/share/"}, {Name: "./usr/share/" + name, Body: name + " " + version + "\n"}},
	}.Bytes()
	m.Add(t, suite, "main", data)
	return data
}

// Add puts a package into a suite.
func (m *Mirror) Add(t testing.TB, suite, component string, data []byte) {
	t.Helper()
	r, err := deb.NewReader(bytes.NewReader(data), deb.Options{})
	must(t, err)
	defer r.Close()
	c := r.Control()
	file := path.Join("pool", component, c.Package, fmt.Sprintf("%s_%s_%s.deb", c.Package, c.Version, c.Architecture))
	m.Put(file, data)
	entry := fmt.Sprintf("%s\nFilename: %s\nSize: %d\nSHA256: %x\n", c.Paragraph, file, len(data), sha256.Sum256(data))
	m.AddEntry(suite, component, entry)
}

// AddEntry puts an entry into a Packages index as it is.
func (m *Mirror) AddEntry(suite, component, entry string) {
	m.packages[suite+" "+component] = append(m.packages[suite+" "+component], entry)
}

// Put serves a file at a path below URL.
func (m *Mirror) Put(file string, data []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.files[file] = data
}

// File is a served file.
func (m *Mirror) File(file string) []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.files[file]
}

// Remove takes a file away.
func (m *Mirror) Remove(file string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.files, file)
}

// Files names what is served, sorted.
func (m *Mirror) Files() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Sorted(maps.Keys(m.files))
}

// Request is one that the mirror got.
type Request struct {
	// Path is below URL; Range is the header of that name.
	Path, Range string
}

// Answer sets a function that may answer a request in the mirror's place; it returns whether it has.
func (m *Mirror) Answer(fn func(w http.ResponseWriter, r *http.Request) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.answer = fn
}

// Requests returns what was asked for since the last call, in order.
func (m *Mirror) Requests() []Request {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := m.requests
	m.requests = nil
	return out
}

// Publish writes the indexes of all suites and signs them.
func (m *Mirror) Publish(t testing.TB) {
	t.Helper()
	for _, suite := range Suites {
		var list strings.Builder
		for _, component := range []string{"main", "non-free-firmware"} {
			dir := component + "/binary-amd64/"
			plain := []byte(strings.Join(m.packages[suite+" "+component], "\n"))
			for _, f := range []struct {
				name string
				data []byte
			}{{"Packages", plain}, {"Packages.xz", debtest.Compress("xz", plain)}} {
				sum := sha256.Sum256(f.data)
				fmt.Fprintf(&list, " %x %d %s\n", sum, len(f.data), dir+f.name)
				if f.name != "Packages" {
					m.Put(fmt.Sprintf("dists/%s/%sby-hash/SHA256/%x", suite, dir, sum), f.data)
				}
			}
		}
		text := fmt.Sprintf("Origin: Debian\nLabel: Debian\nSuite: stable\nCodename: %s\nDate: %s\n", suite, httpDate(m.Date))
		if !m.ValidUntil.IsZero() {
			text += "Valid-Until: " + httpDate(m.ValidUntil) + "\n"
		}
		text += "Acquire-By-Hash: yes\nArchitectures: amd64\nComponents: main non-free-firmware\nSHA256:\n" + list.String()
		if m.Release != nil {
			text = m.Release(suite, text)
		}
		m.Put("dists/"+suite+"/InRelease", Sign(t, m.Key, text, m.Date))
	}
}

func httpDate(t time.Time) string { return t.UTC().Format("Mon, 02 Jan 2006 15:04:05 UTC") }

func (m *Mirror) serve(w http.ResponseWriter, r *http.Request) {
	file, ok := strings.CutPrefix(r.URL.Path, "/debian/")
	m.mu.Lock()
	m.requests = append(m.requests, Request{file, r.Header.Get("Range")})
	data, found := m.files[file]
	hook := m.answer
	m.mu.Unlock()
	switch {
	case hook != nil && hook(w, r):
	case !ok || !found:
		http.NotFound(w, r)
	default:
		http.ServeContent(w, r, path.Base(file), time.Time{}, bytes.NewReader(data))
	}
}

// CutAfter answers as a server whose connection breaks after n bytes of the file.
func (m *Mirror) CutAfter(w http.ResponseWriter, file string, n int) {
	data := m.File(file)
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	_, _ = w.Write(data[:n])
	w.(http.Flusher).Flush()
	panic(http.ErrAbortHandler)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
