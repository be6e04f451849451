// Package docs holds README.md and the pages in docs/ to their form: links lead somewhere, each page is in the index,
// and lines fit into 120 columns.
package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	tree  = "../.."
	index = "docs/README.md"
)

// page is a Markdown file without what stands in code blocks.
type page struct {
	name string
	// prose holds the lines outside of code blocks; a line inside one is empty.
	prose []string
}

func parse(name, text string) page {
	p := page{name: name}
	code := false
	for _, line := range strings.Split(text, "\n") {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			code = !code
			line = ""
		}
		if code {
			line = ""
		}
		p.prose = append(p.prose, line)
	}
	return p
}

// pages returns the README and all pages in docs/, by their path in the tree.
func pages(t *testing.T) map[string]page {
	out := map[string]page{}
	add := func(name string) {
		text, err := os.ReadFile(filepath.Join(tree, name))
		require.NoError(t, err)
		out[name] = parse(name, string(text))
	}
	add("README.md")
	require.NoError(t, fs.WalkDir(os.DirFS(tree), "docs", func(name string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(name, ".md") {
			add(name)
		}
		return err
	}))
	require.Greater(t, len(out), 30)
	return out
}

var (
	codeSpan = regexp.MustCompile("`[^`]*`")
	link     = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading  = regexp.MustCompile(`^#{1,6} +(.*)$`)
	dropped  = regexp.MustCompile(`[^\p{L}\p{N}\-_ ]`)
)

// links returns where a page leads to.
func (p page) links() []string {
	var out []string
	// A link may be broken over two lines, and its text may be code.
	text := codeSpan.ReplaceAllString(strings.Join(p.prose, "\n"), "code")
	for _, m := range link.FindAllStringSubmatch(text, -1) {
		out = append(out, m[1])
	}
	return out
}

// anchors returns what a link to a heading of the page is called, as GitHub makes it.
func (p page) anchors() map[string]bool {
	out := map[string]bool{}
	for _, line := range p.prose {
		if m := heading.FindStringSubmatch(line); m != nil {
			text := dropped.ReplaceAllString(strings.ToLower(m[1]), "")
			out[strings.ReplaceAll(text, " ", "-")] = true
		}
	}
	return out
}

// broken returns what is wrong with a link of a page; nothing where it leads somewhere.
func broken(all map[string]page, from, to string) string {
	if strings.Contains(to, "://") || strings.HasPrefix(to, "mailto:") {
		return ""
	}
	file, anchor, _ := strings.Cut(to, "#")
	name := from
	if file != "" {
		name = filepath.Join(filepath.Dir(from), file)
	}
	if _, err := os.Stat(filepath.Join(tree, name)); err != nil {
		return "there is no file " + name
	}
	if anchor == "" {
		return ""
	}
	p, ok := all[name]
	if !ok {
		return name + " is not a page, so it has no headings"
	}
	if !p.anchors()[anchor] {
		return name + " has no heading " + anchor
	}
	return ""
}

func TestEveryLinkLeadsSomewhere(t *testing.T) {
	all := pages(t)
	count := 0
	for name, p := range all {
		for _, to := range p.links() {
			count++
			if what := broken(all, name, to); what != "" {
				t.Errorf("%s links to %s: %s", name, to, what)
			}
		}
	}
	require.Greater(t, count, 100)
}

func TestABrokenLinkIsFound(t *testing.T) {
	all := map[string]page{
		"README.md": parse("README.md", "# One\n## It's `go build`, *two*: steps\n```\n# Not a heading\n[not](a-link)\n```\n"),
		"LICENSE":   {},
	}
	delete(all, "LICENSE")
	for to, want := range map[string]string{
		"#one":                     "",
		"#its-go-build-two-steps":  "",
		"README.md#one":            "",
		"https://example.org/#one": "",
		"LICENSE":                  "",
		"#not-a-heading":           "README.md has no heading not-a-heading",
		"docs/nowhere.md":          "there is no file docs/nowhere.md",
		"LICENSE#one":              "LICENSE is not a page, so it has no headings",
	} {
		require.Equal(t, want, broken(all, "README.md", to), to)
	}
	require.Empty(t, all["README.md"].links())
	require.Equal(t, []string{"a.md", "b.md#c"}, parse("x", "[`f()`](a.md) and [a\nb](b.md#c), `[no](c.md)`").links())
}

func TestEveryPageIsInTheIndex(t *testing.T) {
	all := pages(t)
	listed := map[string]bool{index: true, "README.md": true}
	for _, to := range all[index].links() {
		file, _, _ := strings.Cut(to, "#")
		listed[filepath.Join("docs", file)] = true
	}
	for name := range all {
		require.True(t, listed[name], "%s is not in %s", name, index)
	}
}

func TestLinesFitIntoATerminal(t *testing.T) {
	for name, p := range pages(t) {
		if filepath.Dir(name) == "docs/reference" {
			continue // generated
		}
		for i, line := range p.prose {
			if n := len([]rune(line)); n > 120 && !strings.HasPrefix(strings.TrimSpace(line), "|") {
				t.Errorf("%s:%d has %d columns: write at most 120", name, i+1, n)
			}
		}
	}
}

// named are the tests that a text names: Test, and a capital letter.
var named = regexp.MustCompile(`\bTest[A-Z][A-Za-z0-9]*`)

// defined returns the tests of the tree.
func defined(t *testing.T) map[string]bool {
	t.Helper()
	function := regexp.MustCompile(`(?m)^func (Test[A-Z]\w*)\(t \*testing\.T\)`)
	out := map[string]bool{}
	require.NoError(t, fs.WalkDir(os.DirFS(tree), ".", func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && (strings.HasPrefix(e.Name(), ".") && name != "." || name == "out" || name == "payloads"):
			return fs.SkipDir
		case !strings.HasSuffix(name, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(filepath.Join(tree, name))
		for _, m := range function.FindAllStringSubmatch(string(text), -1) {
			out[filepath.Dir(name)+" "+m[1]] = true
		}
		return err
	}))
	return out
}

// unproved returns what is wrong with the table of a page of repairs: each row leads to a section of the page, and
// names tests behind their packages, as in "`test/e2e` TestOne, TestTwo; `agent/api` TestThree".
func unproved(p page, tests map[string]bool) (rows int, wrong []string) {
	anchors := p.anchors()
	for _, line := range p.prose {
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		m := link.FindStringSubmatch(cells[0])
		if !strings.HasPrefix(line, "| [") || m == nil {
			continue
		}
		rows++
		if !strings.HasPrefix(m[1], "#") || !anchors[m[1][1:]] {
			wrong = append(wrong, line+": there is no section "+m[1])
		}
		count := 0
		for group := range strings.SplitSeq(cells[len(cells)-1], ";") {
			_, rest, _ := strings.Cut(group, "`")
			folder, names, _ := strings.Cut(rest, "`")
			for _, name := range named.FindAllString(names, -1) {
				count++
				if !tests[folder+" "+name] {
					wrong = append(wrong, line+": "+folder+" has no "+name)
				}
			}
		}
		if count == 0 {
			wrong = append(wrong, line+": it names no test")
		}
	}
	return rows, wrong
}

func TestEachRepairNamesTheTestThatRunsIt(t *testing.T) {
	rows, wrong := unproved(pages(t)["docs/repair.md"], defined(t))
	require.Empty(t, wrong)
	require.Greater(t, rows, 15)
}

func TestARepairThatNothingRunsIsFound(t *testing.T) {
	tests := map[string]bool{"a/b TestOne": true, "c TestTwo": true}
	for row, want := range map[string]string{
		"| [x](#x) | do | `a/b` TestOne; `c` TestTwo |": "",
		"| [x](#x) | do | `a/b` TestOne, TestTwo |":     "a/b has no TestTwo",
		"| [x](#x) | do | by hand |":                    "it names no test",
		"| [x](#x) | do | TestOne |":                    "it names no test",
		"| [x](#y) | do | `a/b` TestOne |":              "there is no section #y",
		"| [x](y.md) | do | `a/b` TestOne |":            "there is no section y.md",
	} {
		rows, wrong := unproved(parse("x", "| what | do | test |\n|---|---|---|\n"+row+"\n\n## X\n"), tests)
		require.Equal(t, 1, rows, row)
		if want == "" {
			require.Empty(t, wrong)
		} else {
			require.Contains(t, strings.Join(wrong, "\n"), want)
		}
	}
}

// told are the words by which a page sends a person to a machine, with the pages that may have them: those for people
// who work on Spore, and those that show what a program of the node says or does.
var told = map[*regexp.Regexp][]string{
	regexp.MustCompile(`(?i)console login|on its console bring|needs a shell on`): nil,
	regexp.MustCompile("^[#$ ]*(systemctl|journalctl) [a-z-]|`(systemctl|journalctl) (status|restart|-u)"): {
		"docs/development.md", "docs/measurements.md", "docs/cis.md", "docs/packages.md",
	},
	regexp.MustCompile("^[#$ ]*spore-(agent|etcd) [a-z]|`spore-agent (install|stage-config|update|reset|state|status)"): {
		"docs/development.md", "docs/high-availability.md",
	},
}

func TestNoPageSendsAPersonToAMachine(t *testing.T) {
	for name := range pages(t) {
		text, err := os.ReadFile(filepath.Join(tree, name))
		require.NoError(t, err)
		for words, but := range told {
			for i, line := range strings.Split(string(text), "\n") {
				if words.MatchString(line) && !slices.Contains(but, name) {
					t.Errorf("%s:%d: %s: name the verb of spore", name, i+1, line)
				}
			}
		}
	}
}

// The page of roles has the files of its example word for word, but for the comments above them.
func TestTheExampleOfARoleIsTheOneThatIsBooted(t *testing.T) {
	page, err := os.ReadFile("../../docs/own-roles.md")
	require.NoError(t, err)
	for _, name := range []string{
		"roles/gateway.yaml", "roles/gateway/gateway.json.tmpl", "units/gateway.service", "programs/gateway.yaml", "services/gateway.yaml",
	} {
		text, err := os.ReadFile("../../examples/own-valkey/" + name)
		require.NoError(t, err)
		for strings.HasPrefix(string(text), "#") && !strings.Contains(string(page), "\n"+string(text)+"```\n") {
			_, rest, _ := strings.Cut(string(text), "\n")
			text = []byte(strings.TrimPrefix(rest, "\n"))
		}
		require.Contains(t, string(page), "\n"+string(text)+"```\n", name)
	}
}
