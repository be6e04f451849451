// Package offline looks through an image for whatever could fetch something at run time: programs that do nothing else,
// units, scripts and udev rules that run something that fetches, container images that the root does not carry, package
// sources, and the kernel command line.
//
// It reads files and runs nothing. What a compiled program does is not seen: that a node needs no network but its own is
// shown by the tests that boot one without. So the report also names what is there that could fetch when somebody asks it to,
// and the peers that the configuration names.
package offline

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"spore/builder/rootfs"
	"spore/builder/tree"
	"spore/builder/unsquash"
	"spore/cluster/facts"
	"spore/services"
	"spore/services/dns"
)

// maxText bounds a file that is searched, in bytes; larger ones that should be are findings.
const maxText = 8 << 20

// Finding is something that could fetch.
type Finding struct {
	Path string `json:"path"`
	// Line is from 1, or 0 where the whole file is meant.
	Line int    `json:"line,omitempty"`
	Text string `json:"text,omitempty"`
	Why  string `json:"why"`
}

// Check is one thing that was looked for.
type Check struct {
	Name string `json:"name"`
	// Evidence says what was looked at.
	Evidence []string  `json:"evidence"`
	Findings []Finding `json:"findings,omitempty"`
}

func (c *Check) evidence(format string, args ...any) {
	c.Evidence = append(c.Evidence, fmt.Sprintf(format, args...))
}

// Report is what was found.
type Report struct {
	Image  string  `json:"image"`
	Checks []Check `json:"checks"`
	// Able are programs that fetch when somebody asks them to, with why nothing in the image does.
	Able []string `json:"able,omitempty"`
	// Peers are those beyond the cluster that the configuration names: a node speaks to them, and gets no program from them.
	Peers []string `json:"peers,omitempty"`
}

// Findings counts those of all checks.
func (r *Report) Findings() int {
	n := 0
	for _, c := range r.Checks {
		n += len(c.Findings)
	}
	return n
}

// Look looks through an image.
func Look(i *rootfs.Image) (*Report, error) {
	r := &Report{Image: i.Name}
	for _, check := range []func(*rootfs.Image) (Check, error){programs, sources, units, scripts, containerImages, commandLine} {
		c, err := check(i)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.Name, err)
		}
		r.Checks = append(r.Checks, c)
	}
	r.Able = able(i)
	var err error
	r.Peers, err = peers(i)
	return r, err
}

// programs looks for fetchers by their names, wherever they are.
func programs(i *rootfs.Image) (Check, error) {
	c := Check{Name: "no program that fetches"}
	seen := 0
	for n := range i.Root.Entries {
		e := &i.Root.Entries[n]
		if e.Type != tree.Symlink && (e.Type != tree.Regular || e.Mode&0o111 == 0) {
			continue
		}
		seen++
		if slices.Contains(fetchers, path.Base(e.Path)) && !strings.HasPrefix(e.Path, "/usr/share/doc/") {
			c.Findings = append(c.Findings, Finding{Path: e.Path, Why: "a program that fetches"})
		}
	}
	c.evidence("%d programs and links, none of which is %s", seen, strings.Join(fetchers, ", "))
	return c, nil
}

// sources looks for places that tell package managers and schedulers what to fetch.
func sources(i *rootfs.Image) (Check, error) {
	c := Check{Name: "no source of packages, no scheduler but systemd"}
	for n := range i.Root.Entries {
		p := i.Root.Entries[n].Path
		for _, pattern := range sourcePaths {
			if ok, err := path.Match(pattern, p); err != nil {
				return c, err
			} else if ok {
				c.Findings = append(c.Findings, Finding{Path: p, Why: "it tells what to fetch, or when"})
			}
		}
	}
	c.evidence("none of %s is there", strings.Join(sourcePaths, ", "))
	return c, nil
}

// commandLine looks at what the kernel is told.
func commandLine(i *rootfs.Image) (Check, error) {
	c := Check{Name: "nothing to fetch on the kernel command line"}
	c.evidence("%s", i.UKI.Cmdline)
	if why := fetches(i.UKI.Cmdline); why != "" || strings.Contains(i.UKI.Cmdline, "systemd.pull") {
		c.Findings = append(c.Findings, Finding{Path: "UKI: .cmdline", Text: i.UKI.Cmdline, Why: "it " + why})
	}
	return c, nil
}

var (
	url   = regexp.MustCompile(`(?i)\b(?:https?|ftp|sftp|git|ssh|rsync|oci|docker)://`)
	names = `(?:/\S*/)?(` + strings.Join(quoted(fetchers), "|") + `)(?:[\s"']|$)`
	// In a unit or a rule each word is meant for something.
	word = regexp.MustCompile(`(?:^|[\s;&|(` + "`" + `"'=!@+:-])` + names)
	// In a script, which prints texts too, a command is at the beginning, behind what ends another one or what runs another,
	// or the first of a list of arguments.
	command = regexp.MustCompile(`(?:^|[;&|({` + "`" + `]\s*|\b(?:then|do|else|exec|env|nohup|sudo|xargs|command|eval)\s+|-c\s*["']|\[\s*["'])` + names)
	// What programs that are there can do besides what they are there for.
	pull    = regexp.MustCompile(`\bctr\s.*\b(?:pull|fetch)\b|\bcrictl\s+(?:\S+\s+)*pull\b|/dev/tcp/|\bpip3?\s+install\b|\bopenssl\s+s_client\b`)
	library = regexp.MustCompile(`\b(?:urlopen|urlretrieve|requests\.(?:get|post)|LWP::UserAgent|WWW::Curl|HTTP::Tiny)\b`)
)

func quoted(words []string) []string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = regexp.QuoteMeta(w)
	}
	return out
}

// fetches tells how a line of a unit fetches something, or returns "".
func fetches(line string) string {
	if m := url.FindString(line); m != "" {
		return "names a place on a network: " + m
	}
	if m := word.FindStringSubmatch(line); m != nil {
		return "runs " + m[1]
	}
	if m := pull.FindString(line); m != "" {
		return "runs " + m
	}
	return ""
}

// scriptFetches tells how a line of a script fetches something, or returns "".
func scriptFetches(line string) string {
	if m := command.FindStringSubmatch(line); m != nil {
		return "runs " + m[1]
	}
	if m := pull.FindString(line); m != "" {
		return "runs " + m
	}
	if m := library.FindString(line); m != "" {
		return "uses " + m
	}
	return ""
}

// lines calls fn with each line of a file and its number.
func lines(img *unsquash.Image, e *unsquash.Entry, fn func(n int, text string)) error {
	s := bufio.NewScanner(io.LimitReader(img.Content(e), maxText))
	s.Buffer(nil, maxText)
	for n := 1; s.Scan(); n++ {
		fn(n, s.Text())
	}
	if err := s.Err(); err != nil {
		return fmt.Errorf("%s: %w", e.Path, err)
	}
	return nil
}

// able names what is there that fetches when it is asked to.
func able(i *rootfs.Image) []string {
	var out []string
	for n := range i.Root.Entries {
		e := &i.Root.Entries[n]
		if why, ok := onDemand[path.Base(e.Path)]; ok && e.Type == tree.Regular && e.Mode&0o111 != 0 {
			out = append(out, e.Path+": "+why)
		}
	}
	return out
}

// peers are those of the configuration.
func peers(i *rootfs.Image) ([]string, error) {
	data, err := i.Cluster.ReadFile("/"+facts.ClusterFile, maxText)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errors.New("the cluster part has no configuration")
	}
	if err != nil {
		return nil, err
	}
	var c facts.Cluster
	if err := services.ReadCluster(data, &c); err != nil {
		return nil, fmt.Errorf("%s: %w", facts.ClusterFile, err)
	}
	return namedPeers(&c), nil
}

func namedPeers(c *facts.Cluster) []string {
	var out []string
	for _, s := range c.Network.NTPServers {
		out = append(out, s+": time (NTP)")
	}
	for _, s := range dns.Forwarders(c) {
		out = append(out, s+": names (DNS)")
	}
	return out
}
