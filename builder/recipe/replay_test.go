package recipe

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAlternativesTakeTheHighestPriority(t *testing.T) {
	script := "update-alternatives --install /usr/sbin/iptables iptables /usr/sbin/iptables-legacy 10\n" +
		"update-alternatives --install /usr/sbin/iptables iptables /usr/sbin/iptables-nft 20\n"
	r, err := Debian([]Package{withScript(pkg("iptables", "",
		fileEntry("/usr/sbin/iptables-legacy", "l", 0o755), fileEntry("/usr/sbin/iptables-nft", "n", 0o755)), "postinst", script)}, Options{})
	require.NoError(t, err)
	require.Equal(t, "n", text(t, r, "/usr/sbin/iptables"))
	group, err := r.Lstat("/usr/sbin/iptables")
	require.NoError(t, err)
	require.Equal(t, "/etc/alternatives/iptables", group.Target)
}

func TestSubjectHashesAreThoseOfOpenSSL(t *testing.T) {
	// openssl x509 -noout -subject_hash -in testdata/certs/NAME
	for name, want := range map[string]string{
		"ISRG_Root_X1.crt":  "4042bcee",
		"NetLock_Arany.crt": "988a38cb",
	} {
		data, err := os.ReadFile(filepath.Join("testdata/certs", name))
		require.NoError(t, err)
		got, err := subjectHash(data)
		require.NoError(t, err)
		require.Equal(t, want, got, name)
	}
}

func TestCABundle(t *testing.T) {
	cert, err := os.ReadFile("testdata/certs/ISRG_Root_X1.crt")
	require.NoError(t, err)
	bare := strings.TrimRight(string(cert), "\n")
	r, err := Debian([]Package{pkg("ca-certificates", "",
		fileEntry("/usr/share/ca-certificates/mozilla/B (two),x.crt", bare, 0o644),
		fileEntry("/usr/share/ca-certificates/mozilla/A.crt", bare, 0o644),
		fileEntry("/usr/share/ca-certificates/mozilla/README", "", 0o644))}, Options{})
	require.NoError(t, err)
	require.Equal(t, bare+"\n"+bare+"\n", text(t, r, "/etc/ssl/certs/ca-certificates.crt"))
	require.Equal(t, bare, text(t, r, "/etc/ssl/certs/B_=two=_x.pem"))
	require.Equal(t, "mozilla/A.crt\nmozilla/B (two),x.crt\n", text(t, r, "/etc/ca-certificates.conf"))
	for link, target := range map[string]string{"4042bcee.0": "A.pem", "4042bcee.1": "B_=two=_x.pem"} {
		n, err := r.Lstat("/etc/ssl/certs/" + link)
		require.NoError(t, err)
		require.Equal(t, target, n.Target)
	}
	for name, data := range map[string]string{"no certificate": "x", "a damaged one": "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"} {
		t.Run(name, func(t *testing.T) {
			_, err := Debian([]Package{pkg("ca-certificates", "", fileEntry("/usr/share/ca-certificates/x.crt", data, 0o644))}, Options{})
			require.ErrorContains(t, err, "/usr/share/ca-certificates/x.crt")
		})
	}
}

func TestCanonicalText(t *testing.T) {
	for in, want := range map[string]string{
		"  A  b\t\nC ": "a b c", "Ő É": "Ő É", "": "", "   ": "", "x": "x",
	} {
		require.Equal(t, want, canonicalText(in), "%q", in)
	}
}

func FuzzSubjectHash(f *testing.F) {
	for _, name := range []string{"ISRG_Root_X1.crt", "NetLock_Arany.crt"} {
		data, err := os.ReadFile(filepath.Join("testdata/certs", name))
		require.NoError(f, err)
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if h, err := subjectHash(data); err == nil {
			require.Len(t, h, 8)
		}
	})
}

func TestPAMStacks(t *testing.T) {
	const template = "# head\n$auth_primary\nauth\trequisite\tpam_deny.so\nauth\trequired\tpam_permit.so\n$auth_additional\n# end\n"
	unix, err := parsePAMProfile("unix", "Name: Unix\nDefault: yes\nPriority: 256\nAuth-Type: Primary\nAuth:\n\t[success=end default=ignore]\tpam_unix.so try_first_pass\nAuth-Initial:\n\t[success=end default=ignore]\tpam_unix.so nullok\n")
	require.NoError(t, err)
	krb, err := parsePAMProfile("krb5", "Name: Kerberos\nDefault: yes\nPriority: 704\nAuth-Type: Primary\nAuth:\n\t[success=end default=ignore]\tpam_krb5.so\n")
	require.NoError(t, err)
	extra, err := parsePAMProfile("cap", "Name: Cap\nDefault: yes\nPriority: 0\nAuth-Type: Additional\nAuth:\n\toptional\tpam_cap.so\n")
	require.NoError(t, err)

	tail := "auth\trequisite\tpam_deny.so\nauth\trequired\tpam_permit.so\n"
	for name, c := range map[string]struct {
		profiles []pamProfile
		want     string
	}{
		"one module jumps over the denial": {[]pamProfile{unix}, "auth\t[success=1 default=ignore]\tpam_unix.so nullok\n" + tail},
		"two modules jump to the same place": {[]pamProfile{krb, unix},
			"auth\t[success=2 default=ignore]\tpam_krb5.so \nauth\t[success=1 default=ignore]\tpam_unix.so try_first_pass\n" + tail},
		"additional modules come last": {[]pamProfile{unix, extra}, "auth\t[success=1 default=ignore]\tpam_unix.so nullok\n" + tail + "auth\toptional\tpam_cap.so \n"},
		"no module permits":            {nil, "auth\t[default=1]\t\t\tpam_permit.so\n" + tail},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, "# head\n"+c.want+"# end\n", fillPAM(template, c.profiles, "Auth", true))
		})
	}
}

func TestRefusedPAMProfiles(t *testing.T) {
	for name, text := range map[string]string{
		"no priority":          "Name: x\nDefault: yes\n",
		"a continued nothing":  "\tpam_x.so\n",
		"a line without colon": "Name: x\nPriority: 1\nrubbish\n",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parsePAMProfile("x", text)
			require.ErrorContains(t, err, "pam profile x")
		})
	}
}

func FuzzPAM(f *testing.F) {
	f.Add("Name: x\nDefault: yes\nPriority: 1\nAuth-Type: Primary\nAuth:\n\t[success=end default=ignore]\tpam_x.so a\n")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := parsePAMProfile("x", text)
		if err != nil {
			return
		}
		fillPAM("$auth_primary\n$auth_additional\n", []pamProfile{p}, "Auth", true)
	})
}
