package apt

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"slices"
	"strings"

	"spore/builder/deb/deb822"
)

// Source is one place that the machine's apt knows.
type Source struct {
	// URI is the base of the archive: http or https, without a slash at its end.
	URI string
	// Suites are those that the machine uses; they tell the main archive from the security archive.
	Suites []string
	// Architectures limits the source; empty is no limit.
	Architectures []string
	// NoValidUntil and NoDate turn checks off for this source (Check-Valid-Until, Check-Date).
	NoValidUntil, NoDate bool
	// Where is the file and line it was read from.
	Where string
}

// ReadSources reads the machine's /etc/apt/sources.list and sources.list.d below root, as sources.list(5) says. Places
// that this program cannot read from (cdrom, tor, …) and lines that are not understood become warnings.
func ReadSources(root fs.FS, arch string) (sources []Source, warnings []string, err error) {
	p := sourceParser{root: root, arch: arch}
	files, err := fs.Glob(root, "etc/apt/sources.list.d/*")
	if err != nil {
		return nil, nil, err
	}
	for _, name := range append([]string{"etc/apt/sources.list"}, files...) {
		ext := path.Ext(name)
		if !partName(path.Base(name), ".list", ".sources") {
			continue
		}
		text, err := readBounded(root, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, nil, fmt.Errorf("read the machine's apt sources: %w", err)
		}
		if ext == ".list" {
			p.oneLine(text, "/"+name)
		} else {
			p.deb822(text, "/"+name)
		}
	}
	return p.sources, p.warnings, nil
}

type sourceParser struct {
	root     fs.FS
	arch     string
	sources  []Source
	warnings []string
}

func (p *sourceParser) warn(where, format string, args ...any) {
	p.warnings = append(p.warnings, where+": "+fmt.Sprintf(format, args...))
}

// oneLine reads lines of the form: deb [ option=value … ] uri suite [component …]
func (p *sourceParser) oneLine(text, file string) {
	n := 0
	for line := range strings.Lines(text) {
		n++
		where := fmt.Sprintf("%s:%d", file, n)
		line, _, _ = strings.Cut(line, "#")
		line = strings.TrimSpace(line)
		kind, rest, _ := strings.Cut(strings.ReplaceAll(line, "\t", " "), " ")
		if kind == "" || kind == "deb-src" {
			continue
		}
		if kind != "deb" {
			p.warn(where, "ignored: a line begins with deb or deb-src, not with %.40q", kind)
			continue
		}
		rest = strings.TrimSpace(rest)
		if strings.HasPrefix(rest, "cdrom:") {
			continue // the URI has spaces; an installed system often keeps such a line
		}
		options := map[string]string{}
		if strings.HasPrefix(rest, "[") {
			inside, after, ok := strings.Cut(rest[1:], "]")
			if !ok {
				p.warn(where, "ignored: the options are not closed by ]")
				continue
			}
			for _, o := range strings.Fields(inside) {
				k, v, _ := strings.Cut(o, "=")
				options[strings.ToLower(strings.TrimRight(k, "+-"))] = v
			}
			rest = after
		}
		words := strings.Fields(rest)
		if len(words) < 2 {
			p.warn(where, "ignored: a source has a URI and a suite")
			continue
		}
		s := Source{Suites: []string{words[1]}, Where: where}
		if a := options["arch"]; a != "" {
			s.Architectures = strings.Split(a, ",")
		}
		s.NoValidUntil, s.NoDate = isNo(options["check-valid-until"]), isNo(options["check-date"])
		p.add(s, words[0])
	}
}

// deb822 reads paragraphs with the fields Types, URIs, Suites, …
func (p *sourceParser) deb822(text, file string) {
	sc := deb822.NewScanner(text)
	for sc.Next() {
		par := sc.Paragraph()
		where := fmt.Sprintf("%s:%d", file, par.Line)
		if isNo(par.Get("Enabled")) || !slices.Contains(strings.Fields(par.Get("Types")), "deb") {
			continue
		}
		uris, suites := strings.Fields(par.Get("URIs")), strings.Fields(par.Get("Suites"))
		if len(uris) == 0 || len(suites) == 0 {
			p.warn(where, "ignored: a source has the fields URIs and Suites")
			continue
		}
		for _, uri := range uris {
			p.add(Source{
				Suites: suites, Where: where, Architectures: strings.Fields(par.Get("Architectures")),
				NoValidUntil: isNo(par.Get("Check-Valid-Until")), NoDate: isNo(par.Get("Check-Date")),
			}, uri)
		}
	}
	if err := sc.Err(); err != nil {
		p.warn(file, "the rest is ignored: %v", err)
	}
}

// add keeps a source when this program can read from it; a list of mirrors is read in its place.
func (p *sourceParser) add(s Source, uri string) {
	if len(s.Architectures) > 0 && !slices.Contains(s.Architectures, p.arch) {
		return
	}
	uri = strings.ReplaceAll(uri, "$(ARCH)", p.arch)
	if list, ok := strings.CutPrefix(uri, "mirror+file:"); ok {
		p.mirrorList(s, list)
		return
	}
	base, err := parseBase(uri)
	if err != nil {
		p.warn(s.Where, "ignored: %v", err)
		return
	}
	s.URI = base
	p.sources = append(p.sources, s)
}

// mirrorList reads a list as apt-transport-mirror(1) has it: a URI a line, perhaps metadata after a tab.
func (p *sourceParser) mirrorList(s Source, file string) {
	text, err := readBounded(p.root, strings.Trim(path.Clean(file), "/"))
	if err != nil {
		p.warn(s.Where, "ignored: mirror list: %v", err)
		return
	}
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		if words := strings.Fields(line); len(words) > 0 && !strings.HasPrefix(words[0], "mirror+") {
			p.add(s, words[0])
		}
	}
}

// parseBase checks the base URI of an archive and takes the slash from its end.
func parseBase(uri string) (string, error) {
	u, err := url.Parse(uri)
	if err != nil {
		return "", fmt.Errorf("%.80q is not a URI", uri)
	}
	if u.Scheme != "http" && u.Scheme != "https" {
		return "", fmt.Errorf("%.80q: only http and https archives can be read", u.Redacted())
	}
	if u.Host == "" || u.RawQuery != "" || u.Fragment != "" || u.Opaque != "" {
		return "", fmt.Errorf("%.80q is not the address of an archive", u.Redacted())
	}
	return strings.TrimRight(u.String(), "/"), nil
}

// isSecurity reports whether a suite's name is that of a security archive ("bookworm-security", before that
// "buster/updates").
func isSecurity(suite string) bool {
	return strings.HasSuffix(strings.TrimRight(suite, "/"), "-security") || strings.HasSuffix(suite, "/updates")
}
