package apt

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp/clearsign"
	pgperrors "github.com/ProtonMail/go-crypto/openpgp/errors"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
	openpgp "github.com/ProtonMail/go-crypto/openpgp/v2"

	"spore/builder/deb/deb822"
	"spore/builder/store"
)

// Bounds of a release file; Debian's has some 150 KB and 1,000 files.
const (
	maxRelease      = 16 << 20
	maxReleaseFiles = 200_000
)

// Release is a verified InRelease file: what a suite holds.
type Release struct {
	Origin, Suite, Codename string
	Date                    time.Time
	// ValidUntil is zero where the archive gives none, as Debian's stable suite does.
	ValidUntil time.Time
	// ByHash says that index files can be had under their hash (Acquire-By-Hash).
	ByHash     bool
	Components []string
	// Architectures and NoAll (No-Support-for-Architecture-all) say where packages for all architectures are listed.
	Architectures []string
	NoAll         []string
	// Files maps paths below dists/SUITE to their size and SHA-256.
	Files map[string]File
}

// File is the size in bytes and SHA-256 of a file of the archive.
type File struct {
	Size   int64
	SHA256 store.Key
}

// Verify checks an InRelease file: one clearsigned message (RFC 9580 section 7), nothing before or after it, with a good
// signature of a key of the keyring, seen at the time now. It returns the signed text and nothing else of the file.
func Verify(data []byte, keys openpgp.EntityList, now time.Time) (string, error) {
	if !bytes.HasPrefix(data, []byte("-----BEGIN PGP SIGNED MESSAGE-----")) {
		return "", errors.New("it is not a clearsigned message")
	}
	block, rest := clearsign.Decode(data)
	if block == nil {
		return "", errors.New("the clearsigned message is damaged or cut short")
	}
	if len(bytes.TrimSpace(rest)) > 0 {
		return "", errors.New("text follows the signature")
	}
	config := &packet.Config{Time: func() time.Time { return now }, MinRSABits: 2048}
	_, _, err := openpgp.VerifyDetachedSignature(keys, bytes.NewReader(block.Bytes), block.ArmoredSignature.Body, config)
	switch {
	case errors.Is(err, pgperrors.ErrUnknownIssuer):
		return "", errors.New("it is not signed by a key of the archive keyring")
	case err != nil:
		return "", fmt.Errorf("the signature does not hold: %w", err)
	}
	// Bytes is what was hashed, with the line ends of OpenPGP's canonical text.
	return strings.ReplaceAll(string(block.Bytes), "\r\n", "\n"), nil
}

// ParseRelease reads the text of a release file.
func ParseRelease(text string) (*Release, error) {
	if len(text) > maxRelease {
		return nil, fmt.Errorf("release file of more than %d bytes", maxRelease)
	}
	s := deb822.NewScanner(text)
	if !s.Next() {
		if s.Err() != nil {
			return nil, s.Err()
		}
		return nil, errors.New("the release file is empty")
	}
	p := s.Paragraph()
	r := &Release{
		Origin: p.Get("Origin"), Suite: p.Get("Suite"), Codename: p.Get("Codename"), ByHash: p.Get("Acquire-By-Hash") == "yes",
		Components: strings.Fields(p.Get("Components")), Architectures: strings.Fields(p.Get("Architectures")),
		NoAll: strings.Fields(p.Get("No-Support-for-Architecture-all")),
	}
	var err error
	if r.Date, err = parseDate(p.Get("Date")); err != nil {
		return nil, fmt.Errorf("field Date: %w", err)
	}
	if v, ok := p.Lookup("Valid-Until"); ok {
		if r.ValidUntil, err = parseDate(v); err != nil {
			return nil, fmt.Errorf("field Valid-Until: %w", err)
		}
	}
	if r.Files, err = parseFiles(p.Get("SHA256")); err != nil {
		return nil, fmt.Errorf("field SHA256: %w", err)
	}
	if s.Next() || s.Err() != nil {
		return nil, errors.New("the release file has more than one paragraph")
	}
	return r, nil
}

// parseDate reads a date of RFC 5322 in UTC, as deb-release files have it.
func parseDate(s string) (time.Time, error) {
	for _, layout := range []string{"Mon, 2 Jan 2006 15:04:05 MST", "Mon, 2 Jan 2006 15:04:05 -0700"} {
		t, err := time.Parse(layout, s)
		if err != nil {
			continue
		}
		if _, offset := t.Zone(); offset != 0 || (!strings.HasSuffix(s, "UTC") && !strings.HasSuffix(s, "GMT") && !strings.HasSuffix(s, "+0000")) {
			break // a zone that is only a name has no known offset
		}
		return t.UTC(), nil
	}
	return time.Time{}, fmt.Errorf("%.60q is not a date in UTC such as \"Sat, 01 Jan 2028 00:00:00 UTC\"", s)
}

// parseFiles reads lines of hash, size and path.
func parseFiles(value string) (map[string]File, error) {
	files := map[string]File{}
	for line := range strings.Lines(value) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		if len(words) != 3 {
			return nil, fmt.Errorf("%.120q is not hash, size and path", line)
		}
		key, err := store.ParseKey(words[0])
		if err != nil {
			return nil, err
		}
		size, err := strconv.ParseInt(words[1], 10, 64)
		if err != nil || size < 0 {
			return nil, fmt.Errorf("%.120q has no size", line)
		}
		if !cleanRelative(words[2]) {
			return nil, fmt.Errorf("path %.120q is not allowed", words[2])
		}
		f := File{Size: size, SHA256: key}
		if old, ok := files[words[2]]; ok && old != f {
			return nil, fmt.Errorf("%s is listed with two hashes", words[2])
		}
		if len(files) == maxReleaseFiles {
			return nil, fmt.Errorf("more than %d files", maxReleaseFiles)
		}
		files[words[2]] = f
	}
	return files, nil
}

// cleanRelative reports whether a path of an archive is plain: relative, clean, without "..", backslash or control
// characters.
func cleanRelative(p string) bool {
	if p == "" || p == "." || len(p) > 1024 || path.Clean(p) != p || path.IsAbs(p) || p == ".." || strings.HasPrefix(p, "../") {
		return false
	}
	return !strings.ContainsFunc(p, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\\' || r == '?' || r == '#' })
}

// check holds a release against the suite it was asked for and the clock. Problems that the machine's settings allow come
// back as warnings.
func (r *Release) check(suite string, now time.Time, noValidUntil, noDate bool) (warnings []string, err error) {
	if r.Codename != suite {
		return nil, fmt.Errorf("it is the index of %q instead of %s", r.Codename, suite)
	}
	if ahead := r.Date.Sub(now); ahead > maxAhead {
		text := fmt.Sprintf("its date %s is %s ahead of this machine's clock", day(r.Date), ahead.Round(time.Minute))
		if !noDate {
			return nil, fmt.Errorf("%s; set the clock", text)
		}
		warnings = append(warnings, text+"; accepted, since the machine's apt settings turn Check-Date off")
	}
	if !r.ValidUntil.IsZero() && now.After(r.ValidUntil) {
		text := "it expired on " + day(r.ValidUntil)
		if !noValidUntil {
			return nil, fmt.Errorf("%s (this machine's clock says %s): the mirror is stale, or an attacker replays an old index; use another mirror, or set the clock", text, day(now))
		}
		warnings = append(warnings, text+"; accepted, since the machine's apt settings turn Check-Valid-Until off")
	}
	return warnings, nil
}

// maxAhead is how far a mirror's clock may be ahead of ours.
const maxAhead = 10 * time.Minute

func day(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }
