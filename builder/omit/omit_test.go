package omit

import (
	"context"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/kmod"
	"spore/builder/kmod/kmodtest"
	"spore/cluster"
)

// made is a kernel with modules that rules name and that they do not.
var made = []kmodtest.Module{
	{Path: "kernel/drivers/net/ethernet/e1000e.ko", Info: []string{"firmware=both/card.bin"}},
	{Path: "kernel/drivers/net/wireless/iwlwifi.ko", Needs: []string{"wiphy_new", "rfkill_alloc"}, Info: []string{"firmware=iwlwifi-8000C-36.ucode"}},
	{Path: "kernel/net/wireless/cfg80211.ko", Exports: []string{"wiphy_new"}},
	{Path: "kernel/net/rfkill/rfkill.ko", Exports: []string{"rfkill_alloc"}},
	{Path: "kernel/drivers/platform/x86/dell-wmi.ko", Needs: []string{"rfkill_alloc"}},
	{Path: "kernel/drivers/platform/x86/dell-laptop.ko"},
	{Path: "kernel/drivers/gpu/drm/amd/amdgpu.ko.xz", Info: []string{"firmware=amdgpu/vega10_sdma.bin", "firmware=both/gpu.bin"}},
	{Path: "kernel/drivers/gpu/drm/ast/ast.ko"},
	{Path: "kernel/sound/soundcore.ko"},
	{Path: "kernel/soundless.ko"},
	{Path: "kernel/drivers/hid/hid-sony.ko"},
	{Path: "kernel/drivers/hid/hid-sonycam.ko"},
	{Path: "updates/sound/new.ko"},
}

func scan(t *testing.T) *kmod.Modules {
	t.Helper()
	tr, err := kmodtest.Tree(slices.DeleteFunc(slices.Clone(made), func(m kmodtest.Module) bool { return m.Path == "kernel/drivers/gpu/drm/amd/amdgpu.ko.xz" }))
	require.NoError(t, err)
	m, err := kmod.Scan(context.Background(), tr, kmodtest.Release, kmod.Part{})
	require.NoError(t, err)
	// A compressed module, without the compressor.
	m.Loadable = append(m.Loadable, kmod.Module{Name: "amdgpu", Path: "kernel/drivers/gpu/drm/amd/amdgpu.ko.xz", Firmware: []string{"amdgpu/vega10_sdma.bin", "both/gpu.bin"}})
	return m
}

func TestModulesThatStay(t *testing.T) {
	always := []string{"dell_wmi", "e1000e", "hid_sonycam", "new", "rfkill", "soundless"}
	for name, tt := range map[string]struct {
		keep   Keep
		needed []string
		more   []string
	}{
		"without a wish":                       {},
		"a class":                              {keep: Keep{Classes: []string{"graphics"}}, more: []string{"amdgpu", "ast"}},
		"all modules":                          {keep: Keep{Classes: []string{"modules"}}, more: []string{"amdgpu", "ast", "cfg80211", "dell_laptop", "hid_sony", "iwlwifi", "soundcore"}},
		"a class of files":                     {keep: Keep{Classes: []string{"docs", "firmware"}}},
		"a module by its path":                 {keep: Keep{Paths: []string{"/usr/lib/modules/*/kernel/drivers/gpu/drm/amd/amdgpu.ko.xz"}}, more: []string{"amdgpu"}},
		"a module without suffixes":            {keep: Keep{Paths: []string{"/usr/lib/modules/*/kernel/drivers/gpu/drm/amd/amdgpu"}}, more: []string{"amdgpu"}},
		"a directory":                          {keep: Keep{Paths: []string{"/usr/lib/modules/*/kernel/drivers/gpu"}}, more: []string{"amdgpu", "ast"}},
		"half a name":                          {keep: Keep{Paths: []string{"/usr/lib/modules/*/kernel/drivers/gp"}}},
		"what is needed, with what that needs": {needed: []string{"iwlwifi"}, more: []string{"cfg80211", "iwlwifi"}},
	} {
		t.Run(name, func(t *testing.T) {
			modules, k, err := Select(scan(t), tt.keep, tt.needed)
			require.NoError(t, err)
			var kept []string
			for _, m := range modules.Loadable {
				kept = append(kept, m.Name)
			}
			slices.Sort(kept)
			want := append(append([]string(nil), always...), tt.more...)
			slices.Sort(want)
			require.Equal(t, want, kept)
			require.Len(t, k.Left, len(made)-len(want))
			files, err := modules.Files()
			require.NoError(t, err)
			for _, o := range k.Left {
				require.NotContains(t, string(files["modules.dep"]), o.Path[len("/usr/lib/modules/"+kmodtest.Release+"/"):])
			}
		})
	}
	_, _, err := Select(scan(t), Keep{}, []string{"nonsense"})
	require.ErrorContains(t, err, "no module or alias nonsense")
}

// A part is chosen before the modules are read, so that it has to lead to the same choice as all of them.
func TestAPartIsEnoughToChoose(t *testing.T) {
	modules := slices.DeleteFunc(slices.Clone(made), func(m kmodtest.Module) bool { return m.Path == "kernel/drivers/gpu/drm/amd/amdgpu.ko.xz" })
	for i, m := range modules { // what modpost writes into a module
		for _, user := range modules {
			if slices.ContainsFunc(m.Needs, func(s string) bool { return slices.Contains(user.Exports, s) }) {
				name := strings.TrimSuffix(path.Base(user.Path), ".ko")
				modules[i].Info = append(slices.Clone(modules[i].Info), "depends="+name)
			}
		}
	}
	tr, err := kmodtest.Tree(modules)
	require.NoError(t, err)
	for name, tt := range map[string]struct {
		keep   Keep
		needed []string
	}{
		"no wish":      {},
		"a class":      {keep: Keep{Classes: []string{"sound"}}},
		"all modules":  {keep: Keep{Classes: []string{Modules}}},
		"a path":       {keep: Keep{Paths: []string{"/usr/lib/modules/*/kernel/drivers/gpu"}}},
		"a needed one": {needed: []string{"iwlwifi"}},
	} {
		t.Run(name, func(t *testing.T) {
			all, err := kmod.Scan(context.Background(), tr, kmodtest.Release, kmod.Part{})
			require.NoError(t, err)
			want, wantKernel, err := Select(all, tt.keep, tt.needed)
			require.NoError(t, err)
			part := Part(kmodtest.Release, tt.keep, nil, tt.needed)
			some, err := kmod.Scan(context.Background(), tr, kmodtest.Release, part)
			require.NoError(t, err)
			got, gotKernel, err := Select(some, tt.keep, tt.needed)
			require.NoError(t, err)
			require.ElementsMatch(t, want.Loadable, got.Loadable)
			require.Equal(t, wantKernel.Left, gotKernel.Left)
			require.Len(t, some.Unread, len(gotKernel.Left), "nothing is read that is left out")
			require.NotEqual(t, part.ID, Part(kmodtest.Release, tt.keep, []string{"other"}, tt.needed).ID)
		})
	}
}

func TestWhyAModuleIsLeftOut(t *testing.T) {
	_, k, err := Select(scan(t), Keep{}, nil)
	require.NoError(t, err)
	i := slices.IndexFunc(k.Left, func(o Omission) bool {
		return o.Path == "/usr/lib/modules/"+kmodtest.Release+"/kernel/sound/soundcore.ko"
	})
	require.GreaterOrEqual(t, i, 0)
	require.Equal(t, "no sound; keep: [sound] puts it back", k.Left[i].Reason())
}

func TestFirmwareGoesWithTheModulesThatAskForIt(t *testing.T) {
	paths := []string{
		"/usr/lib/firmware/amdgpu/vega10_sdma.bin", "/usr/lib/firmware/amdgpu/vega99_new.bin", // a directory of what is left out
		"/usr/lib/firmware/both/gpu.bin",                                                 // a directory that a module which stays asks for too
		"/usr/lib/firmware/iwlwifi-8000C-30.ucode", "/usr/lib/firmware/iwlwifi.ucode.xz", // older ones of one that is asked for
		"/usr/lib/firmware/nobody.bin", "/usr/lib/firmware/nobody/asks.bin", "/usr/share/amdgpu/a.bin",
	}
	left := func(keep Keep) (out []string) {
		_, k, err := Select(scan(t), keep, nil)
		require.NoError(t, err)
		for _, o := range k.Firmware(paths) {
			require.Contains(t, o.Reason(), "keep: [firmware] puts it back")
			out = append(out, o.Path)
		}
		return out
	}
	require.Equal(t, []string{paths[0], paths[1], paths[3]}, left(Keep{}))
	require.Equal(t, paths[3:4], left(Keep{Classes: []string{"graphics"}}))
	require.Empty(t, left(Keep{Classes: []string{"firmware"}}))
	require.Equal(t, []string{paths[1], paths[3]}, left(Keep{Paths: []string{"/usr/lib/firmware/*/vega10_*"}}))
}

func TestKeptPaths(t *testing.T) {
	k := Keep{Paths: []string{"/usr/share/locale/de*", "/usr/share/zsh"}}
	for p, want := range map[string][2]bool{ // itself, something below
		"/usr/share/locale/de/LC_MESSAGES/a.mo": {true, false},
		"/usr/share/locale/de_AT":               {true, false},
		"/usr/share/locale/fr":                  {},
		"/usr/share/locale":                     {false, true},
		"/usr/share":                            {false, true},
		"/usr/share/zsh":                        {true, false},
		"/usr/share/zshell":                     {},
		"/usr/lib":                              {},
	} {
		require.Equal(t, want, [2]bool{k.Path(p), k.Below(p)}, p)
	}
}

// The words that a user may write are listed by the package that checks them.
func TestEveryClassCanBeWrittenIntoImageYAML(t *testing.T) {
	ours := append(Hardware(), Completions, Desktop, Development, Docs, Firmware, Locales, Man, Modules, Perl)
	require.ElementsMatch(t, ours, cluster.Choices()["Image.keep"])
}
