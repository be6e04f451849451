package recipe

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func serviceUnit(lines string) string { return "[Unit]\nDescription=x\n[Service]\n" + lines }

func TestUnitsOfPackagesTakeNothingFromOutside(t *testing.T) {
	o := Options{
		Units:   units(map[string]string{"ours.service": serviceUnit("ImportCredential=spore.bundle\nLoadCredential=secret:/run/spore/secrets/ours\n")}),
		Overlay: units(map[string]string{"usr/lib/systemd/system/wanted.service.d/50-mine.conf": "[Service]\nImportCredential=spore.mine\n"}),
	}
	r := compose(t, o, pkg("systemd", "",
		unit("a-tmpfiles.service", serviceUnit("ImportCredential=tmpfiles.*\nImportCredential=login.motd\n")),
		linkEntry(localUnits+"/alias.of-tmpfiles.service", packageUnits+"/a-tmpfiles.service"),
		unit("b-getty@.service", serviceUnit("ImportCredential=tty.virtual.%I.agetty.*:agetty.\n")),
		unit("c-old.service", serviceUnit("LoadCredential=passwd.hashed-password.root\nLoadCredentialEncrypted=x\n")),
		unit("d.socket", "[Socket]\nListenStream=/run/x\nImportCredential=y\n"),
		unit("inside.service", serviceUnit("LoadCredential=x:/etc/x\nSetCredential=y:z\n")),
		unit("plain.service", serviceUnit("")),
		unit("wanted.service", serviceUnit("ImportCredential=theirs\n")),
		unit("dropped-in.service", serviceUnit("")), fileEntry(packageUnits+"/dropped-in.service.d/10-x.conf", "[Service]\nImportCredential=q\n", 0o644),
		unit("multi-user.target", "")))
	found, err := ImportedCredentials(r.Tree)
	require.NoError(t, err)
	var got []string
	for _, i := range found {
		got = append(got, i.Unit+" "+i.Setting+"="+i.Value)
	}
	require.ElementsMatch(t, []string{"ours.service ImportCredential=spore.bundle", "wanted.service ImportCredential=spore.mine"}, got)
	for name, want := range map[string]string{
		"a-tmpfiles.service": "[Service]\nImportCredential=\n",
		"b-getty@.service":   "[Service]\nImportCredential=\n",
		"c-old.service":      "[Service]\nLoadCredential=\nLoadCredentialEncrypted=\n",
		"d.socket":           "[Socket]\nImportCredential=\n",
	} {
		require.Equal(t, want, text(t, r.Tree, localUnits+"/"+name+".d/"+credentialDropIn))
	}
	for _, name := range []string{"inside.service", "plain.service", "ours.service"} {
		require.False(t, r.Tree.Exists(localUnits+"/"+name+".d"), name)
	}
}

func TestWhatCannotBeShutIsSaid(t *testing.T) {
	_, err := Compose([]Package{pkg("systemd", "", unit("x.service", serviceUnit("ImportCredential=a\n")),
		fileEntry(packageUnits+"/x.service.d/90-late.conf", "[Service]\nImportCredential=b\n", 0o644), unit("multi-user.target", ""))}, Options{})
	require.ErrorContains(t, err, "90-late.conf: ImportCredential=b is read after")

	r := compose(t, Options{}, pkg("systemd", "", unit("x.service", "[Unit]\nConditionCredential=a\n[Service]\n"), unit("multi-user.target", "")))
	require.Contains(t, r.Report.Notes()[0].Why, "ConditionCredential=a takes data from outside")
}

func TestAUnitOfOurOwnNamesWhatIsHandedOver(t *testing.T) {
	for line, bad := range map[string]bool{
		"ImportCredential=spore.mine": false, "ImportCredential=spore.mine.*": false, "ImportCredential=mine": true, "ImportCredential=*": true,
		"LoadCredential=mine": true, "LoadCredential=mine:spore.mine": false, "LoadCredential=spore.mine": false,
	} {
		_, err := Compose([]Package{pkg("systemd", "", unit("multi-user.target", ""))}, Options{Units: units(map[string]string{"mine.service": serviceUnit(line + "\n")})})
		if !bad {
			require.NoError(t, err, line)
			continue
		}
		require.ErrorContains(t, err, "write a name that begins with spore.", line)
	}
}

func TestWhatIsOutside(t *testing.T) {
	for line, want := range map[string]bool{
		"ImportCredential=x.*": true, "ImportCredential=": true, "LoadCredential=x": true, "LoadCredential=x:y": true, "LoadCredential=x:/etc/y": false,
		"LoadCredential=x:/run/credentials/@system/y": true, "LoadCredential=x:/sys/firmware/y": true, "SetCredential=x:y": false, "Environment=x": false,
	} {
		setting, value, _ := strings.Cut(line, "=")
		require.Equal(t, want, outside("[Service]", ".service", setting, value), line)
		require.False(t, outside("[Install]", ".service", setting, value), line)
	}
	require.True(t, outside("[Unit]", ".service", "ConditionCredential", "x"))
	require.False(t, outside("[Unit]", ".target", "ImportCredential", "x"))
	require.False(t, outside("", ".target", "ImportCredential", "x"))
}
