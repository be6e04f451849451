package recipe

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/kmod"
	"spore/builder/kmod/kmodtest"
	"spore/builder/omit"
	"spore/builder/tree"
)

// optionalPaths has a file of each kind that image.yaml can put back.
var optionalPaths = map[string]string{
	"/usr/share/man/man1/a.1.gz":                          omit.Man,
	"/usr/lib/jvm/java-21/man/man1/java.1.gz":             omit.Man,
	"/usr/share/doc/a/changelog.gz":                       omit.Docs,
	"/usr/share/doc/nothing/readme":                       omit.Docs,
	"/usr/share/info/a.info.gz":                           omit.Docs,
	"/usr/share/locale/de/LC_MESSAGES/a.mo":               omit.Locales,
	"/usr/lib/x86_64-linux-gnu/gconv/IBM037.so":           omit.Locales,
	"/usr/share/bash-completion/completions/a":            omit.Completions,
	"/usr/share/applications/a.desktop":                   omit.Desktop,
	"/usr/include/a.h":                                    omit.Development,
	"/usr/share/perl5/A.pm":                               omit.Perl,
	"/usr/lib/modules/6.12.0-test/kernel/sound/snd.ko":    "sound",
	"/usr/lib/modules/6.12.0-test/kernel/net/nfc/nfc.ko":  "wireless",
	"/usr/lib/firmware/intel/sst.bin":                     omit.Firmware,
	"/usr/lib/modules/6.12.0-test/kernel/fs/ext4/ext4.ko": "",
	"/usr/lib/firmware/e100/card.bin":                     "",
	"/usr/share/doc/a/copyright":                          "",
}

func leaveAndLook(t *testing.T, keep omit.Keep) (*Result, map[string]bool) {
	t.Helper()
	var entries []entry
	for p := range optionalPaths {
		entries = append(entries, fileEntry(p, p, 0o644))
	}
	entries = append(entries, linkEntry("/usr/lib/firmware/e100/link.bin", "../linked/target.bin"), fileEntry("/usr/lib/firmware/linked/target.bin", "t", 0o644))
	kernel, err := kmodtest.Tree([]kmodtest.Module{
		{Path: "kernel/sound/snd.ko", Info: []string{"firmware=intel/sst.bin", "firmware=linked/target.bin"}}, {Path: "kernel/net/nfc/nfc.ko"},
		{Path: "kernel/fs/ext4/ext4.ko"}, {Path: "kernel/drivers/net/e100.ko", Info: []string{"firmware=e100/card.bin"}},
	})
	require.NoError(t, err)
	m, err := kmod.Scan(context.Background(), kernel, kmodtest.Release, kmod.Part{})
	require.NoError(t, err)
	_, hardware, err := omit.Select(m, keep, nil)
	require.NoError(t, err)
	r := compose(t, Options{Kernel: kmodtest.Release, Hardware: hardware, Keep: keep}, pkg("a", "", entries...),
		pkg("kernel", "", fileEntry("/usr/lib/modules/6.12.0-test/kernel/drivers/net/e100.ko", "", 0o644)))
	there := map[string]bool{}
	for p := range optionalPaths {
		there[p] = r.Tree.Exists(p)
	}
	require.True(t, r.Tree.Exists("/usr/lib/firmware/linked/target.bin"), "what a link that stays leads to")
	return r, there
}

func TestWhatIsLeftOutIsReportedWithWhatPutsItBack(t *testing.T) {
	r, there := leaveAndLook(t, omit.Keep{})
	for p, class := range optionalPaths {
		require.Equal(t, class == "", there[p], p)
		if class == "" {
			continue
		}
		reported := false
		for _, e := range r.Report.Of("drop") {
			reported = reported || (e.Path == p || strings.HasPrefix(p, e.Path+"/")) && strings.HasSuffix(e.Why, "keep: ["+class+"] puts it back")
		}
		require.True(t, reported, p)
	}
	require.False(t, r.Tree.Exists("/usr/lib/modules/6.12.0-test/kernel/net"), "empty directories go too")
}

func TestEachKindIsPutBack(t *testing.T) {
	kinds := map[string]bool{}
	for _, class := range optionalPaths {
		kinds[class] = true
	}
	for kind := range kinds {
		_, there := leaveAndLook(t, omit.Keep{Classes: []string{kind}})
		for p, class := range optionalPaths {
			// The firmware comes back with the module that asks for it, too.
			want := class == "" || class == kind || class == omit.Firmware && kind == "sound"
			require.Equal(t, want, there[p], "%s with keep: [%s]", p, kind)
		}
	}
}

func TestPathsArePutBack(t *testing.T) {
	r, there := leaveAndLook(t, omit.Keep{Paths: []string{"/usr/share/locale/d?", "/usr/share/doc/a/change*", "/usr/lib/modules/*/kernel/net"}})
	for p, class := range optionalPaths {
		want := class == "" || p == "/usr/share/locale/de/LC_MESSAGES/a.mo" || p == "/usr/share/doc/a/changelog.gz" || strings.HasSuffix(p, "nfc.ko")
		require.Equal(t, want, there[p], p)
	}
	n, err := r.Tree.Lstat("/usr/share/locale")
	require.NoError(t, err)
	require.Equal(t, tree.Dir, n.Type)
}

func TestModulesOfPerlStayWhereItIsInTheImage(t *testing.T) {
	module := pkg("client", "", fileEntry("/usr/share/perl5/Client.pm", "package Client;", 0o644))
	require.False(t, compose(t, Options{}, module).Tree.Exists("/usr/share/perl5/Client.pm"))
	require.True(t, compose(t, Options{}, module, pkg("perl", "")).Tree.Exists("/usr/share/perl5/Client.pm"))
}
