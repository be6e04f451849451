// Package leak searches bytes for secrets: for given ones, in the forms in which they are written down, and for what is a
// secret by its looks, whoever's it is. What is found is named, never quoted.
//
// It unpacks and decompresses nothing; whoever calls it does that first.
package leak

import (
	"bytes"
	"cmp"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

// Sizes in bytes.
const (
	// minNeedle is the shortest that is searched for; what is shorter is found by chance.
	minNeedle = 8
	// piece and stride cut long base64 and hexadecimal text, so that it is found across the line ends that tools put into it:
	// 96 and 64 bits are not found by chance.
	piece, stride = 16, 8
	// chunk is read at a time, overlap is seen twice. No needle and no look is longer than the overlap.
	chunk, overlap = 4 << 20, 8 << 10
	// maxFinds is where a search ends.
	maxFinds = 100
)

// Find is one place where a secret is.
type Find struct {
	// Name says which secret it is and in which form.
	Name string
	// Offset is where it begins, in bytes.
	Offset int64
}

func (f Find) String() string { return fmt.Sprintf("%s at byte %d", f.Name, f.Offset) }

type needle struct {
	name string
	data []byte
}

// Searcher knows what to search for. One search at a time.
type Searcher struct {
	buf []byte
	// needles by their first eight bytes, and a filter before the map.
	needles map[uint64][]needle
	filter  [1 << 15]uint64
}

// New returns a searcher that knows no secret yet, and what secrets look like.
func New() *Searcher {
	return &Searcher{buf: make([]byte, overlap+chunk), needles: map[uint64][]needle{}}
}

// slot is where the filter keeps eight bytes.
func slot(v uint64) uint64 { return v * 0x9e3779b97f4a7c15 >> 43 }

func (s *Searcher) needle(name string, data []byte) {
	if len(data) < minNeedle || len(data) > overlap {
		return
	}
	v := binary.LittleEndian.Uint64(data)
	for _, n := range s.needles[v] {
		if bytes.Equal(n.data, data) {
			return
		}
	}
	s.needles[v] = append(s.needles[v], needle{name, data})
	s.filter[slot(v)>>6] |= 1 << (slot(v) & 63)
}

// Len is how many strings are searched for.
func (s *Searcher) Len() int {
	n := 0
	for _, list := range s.needles {
		n += len(list)
	}
	return n
}

// Add adds a secret: a private key in PEM, or any text. Text is searched for as it is, in its longer words, in base64 and
// hexadecimal, and where it is itself a writing of bytes, as these.
func (s *Searcher) Add(name, value string) error {
	// The beginning of each of age's keys, which is in every program that reads them.
	value = strings.TrimPrefix(strings.TrimRight(value, "\r\n"), "AGE-SECRET-KEY-1")
	if len(value) < minNeedle {
		return fmt.Errorf("the secret %s is shorter than %d bytes, so it would be found by chance", name, minNeedle)
	}
	if strings.Contains(value, "PRIVATE KEY-----") {
		return s.addKey(name, value)
	}
	s.text(name, value)
	words := strings.FieldsFunc(value, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("+/=_-.", r))
	})
	for _, w := range words {
		if _, after, ok := strings.Cut(w, "="); ok && len(after) > 2 { // key=value, and not base64's padding
			w = after
		}
		if len(w) >= 20 && w != value {
			s.text(name+", a word of it", w)
		}
	}
	return nil
}

func (s *Searcher) text(name, value string) {
	s.needle(name, []byte(value))
	s.encoded(name, []byte(value))
	for form, data := range meanings(value) {
		s.needle(name+", the bytes of its "+form, data)
		s.encoded(name+", the bytes of its "+form, data)
	}
}

// meanings reads text as a writing of bytes in each way that it can be one.
func meanings(text string) map[string][]byte {
	out := map[string][]byte{}
	keep := func(form string, data []byte, err error) {
		if err == nil && len(data) >= minNeedle {
			out[form] = data
		}
	}
	bare := strings.TrimRight(text, "=")
	std, err := base64.RawStdEncoding.DecodeString(bare)
	keep("base64", std, err)
	url, err := base64.RawURLEncoding.DecodeString(bare)
	keep("base64url", url, err)
	plain := strings.ReplaceAll(text, "-", "")
	data, err := hex.DecodeString(plain)
	keep("hex", data, err)
	data, err = hex.DecodeString(strings.NewReplacer("a", "x", "b", "1", "c", "0", "d", "2", "e", "3", "f", "4", "g", "5", "h", "6", "i", "7", "j", "8", "k", "9", "l", "a", "n", "b", "r", "c", "t", "d", "u", "e", "v", "f").Replace(plain))
	keep("modhex", data, err)
	return out
}

// encoded adds the ways in which bytes are written as text.
func (s *Searcher) encoded(name string, data []byte) {
	lower := hex.EncodeToString(data)
	s.pieces(name+" in hex", lower)
	s.pieces(name+" in hex", strings.ToUpper(lower))
	for _, enc := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		// In a longer text it begins at any of three places of a group of four letters. Those that it shares are left out.
		for shift, shared := range []int{0, 2, 3} {
			text := enc.EncodeToString(append(make([]byte, shift), data...))
			s.pieces(name+" in base64", text[shared:(shift+len(data))*8/6])
		}
	}
}

func (s *Searcher) pieces(name, text string) {
	if len(text) <= piece {
		s.needle(name, []byte(text))
		return
	}
	for i := 0; i+piece <= len(text); i += stride {
		s.needle(name, []byte(text[i:i+piece]))
	}
	s.needle(name, []byte(text[len(text)-piece:]))
}

// addKey adds what is secret in a private key. Its public half is in certificates.
func (s *Searcher) addKey(name, text string) error {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return fmt.Errorf("the secret %s is not a PEM", name)
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return fmt.Errorf("the secret %s is no key in PKCS #8", name)
	}
	var private []byte
	switch key := key.(type) {
	case *ecdsa.PrivateKey:
		if private, err = key.Bytes(); err != nil {
			return fmt.Errorf("the secret %s: %w", name, err)
		}
	case ed25519.PrivateKey:
		private = key.Seed()
	default:
		return fmt.Errorf("the secret %s is a key of another kind than ours", name)
	}
	at := bytes.Index(block.Bytes, private)
	if at < 0 {
		return fmt.Errorf("the secret %s does not hold its own number", name)
	}
	s.needle(name, private)
	reversed := slices.Clone(private)
	slices.Reverse(reversed)
	s.needle(name+", backwards", reversed)
	s.needle(name+" in DER", block.Bytes)
	s.encoded(name, private)
	// Lines of the PEM that have at least eight bytes of it, 48 bytes each.
	for i, line := range strings.Split(strings.TrimSpace(text), "\n")[1:] {
		if begin, end := 48*i, 48*i+48; min(end, at+len(private))-max(begin, at) >= minNeedle {
			s.needle(fmt.Sprintf("%s, line %d of its PEM", name, i+1), []byte(strings.TrimSpace(line)))
		}
	}
	return nil
}

// look is what a secret looks like.
type look struct {
	name string
	// mark is in each of them, before is how far it may be from the beginning.
	mark   string
	before int
	expr   *regexp.Regexp
}

// hash64 is the alphabet of crypt(5).
const hash64 = `[./0-9A-Za-z]`

// looks is the table of what secrets look like. Programs that read or write them have their first words; so each asks for
// content as well.
var looks = []look{
	{"a private key in PEM", "PRIVATE KEY-----", 0, regexp.MustCompile(`^PRIVATE KEY-----(?:\s|\\n|\\r)+(?:[A-Za-z-]+: [^\n]*\n)*(?:\s|\\n|\\r)*[A-Za-z0-9+/]{32}`)},
	{"an age identity", "AGE-SECRET-KEY-", 0, regexp.MustCompile(`^AGE-SECRET-KEY-(?:PQ-)?1[0-9A-Z]{50}`)},
	{"a verifier (crypt, MD5)", "$1$", 0, regexp.MustCompile(`^\$1\$` + hash64 + `{1,8}\$` + hash64 + `{22}`)},
	{"a verifier (crypt, bcrypt)", "$2", 0, regexp.MustCompile(`^\$2[abxy]\$\d\d\$` + hash64 + `{53}`)},
	{"a verifier (crypt, SHA-256)", "$5$", 0, regexp.MustCompile(`^\$5\$(?:rounds=\d+\$)?[^$:\s]{1,16}\$` + hash64 + `{43}`)},
	{"a verifier (crypt, SHA-512)", "$6$", 0, regexp.MustCompile(`^\$6\$(?:rounds=\d+\$)?[^$:\s]{1,16}\$` + hash64 + `{86}`)},
	{"a verifier (crypt, scrypt)", "$7$", 0, regexp.MustCompile(`^\$7\$` + hash64 + `{11,}\$` + hash64 + `{43}`)},
	{"a verifier (crypt, yescrypt)", "y$", 2, regexp.MustCompile(`\$g?y\$` + hash64 + `+\$` + hash64 + `{0,86}\$` + hash64 + `{43}`)},
	{"a verifier (argon2)", "$argon2", 0, regexp.MustCompile(`^\$argon2(?:id|i|d)\$v=\d+\$m=\d+,t=\d+,p=\d+\$[A-Za-z0-9+/]{8,}`)},
	{"a verifier (mosquitto)", "$6$", 0, regexp.MustCompile(`^\$6\$[A-Za-z0-9+/]{8,}={0,2}\$[A-Za-z0-9+/]{86}==`)},
	{"a verifier (mosquitto)", "$7$", 0, regexp.MustCompile(`^\$7\$\d+\$[A-Za-z0-9+/]{8,}={0,2}\$[A-Za-z0-9+/]{86}==`)},
	{"a verifier (SCRAM)", "saltedpassword=", 0, regexp.MustCompile(`^saltedpassword="?[A-Za-z0-9+/]{20}`)},
	{"a verifier (SCRAM)", "stored_key=", 0, regexp.MustCompile(`^stored_key="?[A-Za-z0-9+/]{20}`)},
	{"a keyring", "[client.", 0, regexp.MustCompile(`^\[client\.[A-Za-z0-9._-]+\]\s+key\s*=\s*[A-Za-z0-9+/]{20}`)},
	// Ceph's src/auth/Crypto.cc, CryptoKey::encode: type 1, seconds, nanoseconds, length 16.
	{"a cephx key", "AQ", 0, regexp.MustCompile(`^AQ[A-D][A-Za-z0-9+/]{9}[A-O][BRhx]AA[A-Za-z0-9+/]{22}==`)},
	{"a Kubernetes bootstrap token", "token-secret", 0, regexp.MustCompile(`^token-secret"?: *"?[a-z0-9+/=]{16}`)},
}

// Search reads to the end and returns what it finds, at most a hundred.
func (s *Searcher) Search(r io.Reader) ([]Find, error) {
	buf := s.buf
	seen := map[Find]bool{}
	kept, base := 0, int64(0) // what is left of the last chunk, and where the buffer begins
	for len(seen) < maxFinds {
		n, err := io.ReadFull(r, buf[kept:])
		part := buf[:kept+n]
		s.bytes(part, base, seen)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		base += int64(len(part) - overlap)
		kept = copy(buf, part[len(part)-overlap:])
	}
	out := make([]Find, 0, len(seen))
	for f := range seen {
		out = append(out, f)
	}
	slices.SortFunc(out, func(a, b Find) int { return cmp.Or(cmp.Compare(a.Offset, b.Offset), strings.Compare(a.Name, b.Name)) })
	return out, nil
}

// zeros is what a sparse file gives where it has nothing.
var zeros [4096]byte

func allZero(b []byte) bool {
	for len(b) > len(zeros) {
		if !bytes.Equal(b[:len(zeros)], zeros[:]) {
			return false
		}
		b = b[len(zeros):]
	}
	return bytes.Equal(b, zeros[:len(b)])
}

func (s *Searcher) bytes(b []byte, base int64, seen map[Find]bool) {
	if allZero(b) {
		return
	}
	for _, l := range looks {
		for i := 0; ; {
			at := bytes.Index(b[i:], []byte(l.mark))
			if at < 0 {
				break
			}
			at += i
			from := max(0, at-l.before)
			if m := l.expr.FindIndex(b[from:min(len(b), from+overlap/2)]); m != nil {
				seen[Find{l.name, base + int64(from+m[0])}] = true
			}
			i = at + len(l.mark)
		}
	}
	for i := 0; i+minNeedle <= len(b); i++ {
		v := binary.LittleEndian.Uint64(b[i:])
		if v == 0 && i+len(zeros) <= len(b) && bytes.Equal(b[i:i+len(zeros)], zeros[:]) {
			i += len(zeros) - minNeedle
			continue
		}
		if k := slot(v); s.filter[k>>6]>>(k&63)&1 == 0 {
			continue
		}
		for _, n := range s.needles[v] {
			if bytes.HasPrefix(b[i:], n.data) {
				seen[Find{n.name, base + int64(i)}] = true
			}
		}
	}
}
