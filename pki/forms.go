package pki

import (
	"crypto/pbkdf2"
	"crypto/sha512"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"spore/services/service"
)

// form makes a value. from is the value of the row that it is derived from.
type form func(random io.Reader, now time.Time, from Hidden) (Hidden, error)

var forms = map[string]form{
	service.FormPassword: func(random io.Reader, _ time.Time, _ Hidden) (Hidden, error) {
		return draw(random, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789", 24)
	},
	service.FormKey: func(random io.Reader, _ time.Time, _ Hidden) (Hidden, error) {
		b, err := read(random, 32)
		return Hidden(base64.StdEncoding.EncodeToString(b)), err
	},
	service.FormUUID: func(random io.Reader, _ time.Time, _ Hidden) (Hidden, error) {
		b, err := read(random, 16)
		if err != nil {
			return "", err
		}
		b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
		return Hidden(fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])), nil
	},
	service.FormCephx:    cephKey,
	service.FormKafkaID:  kafkaID,
	service.FormSCRAM:    scram,
	service.FormAge:      ageIdentity,
	service.FormRecovery: recovery,
}

func read(random io.Reader, n int) ([]byte, error) {
	b := make([]byte, n)
	if _, err := io.ReadFull(random, b); err != nil {
		return nil, fmt.Errorf("read random bytes: %w", err)
	}
	return b, nil
}

// draw returns n letters of an alphabet, each as likely as the others.
func draw(random io.Reader, alphabet string, n int) (Hidden, error) {
	bound := 256 - 256%len(alphabet)
	var out strings.Builder
	for range 64 {
		b, err := read(random, 2*n)
		if err != nil {
			return "", err
		}
		for _, c := range b {
			if int(c) < bound && out.Len() < n {
				out.WriteByte(alphabet[int(c)%len(alphabet)])
			}
		}
		if out.Len() == n {
			return Hidden(out.String()), nil
		}
	}
	return "", errors.New("the random source gives no random bytes")
}

// cephKey is le16 type 1 (AES), le32 seconds and le32 nanoseconds of its making, le16 length, and the key.
func cephKey(random io.Reader, now time.Time, _ Hidden) (Hidden, error) {
	key, err := read(random, 16)
	if err != nil {
		return "", err
	}
	b := binary.LittleEndian.AppendUint16(nil, 1)
	b = binary.LittleEndian.AppendUint32(b, uint32(now.Unix()))
	b = binary.LittleEndian.AppendUint32(b, 0)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(key)))
	return Hidden(base64.StdEncoding.EncodeToString(append(b, key...))), nil
}

// kafkaID avoids what Kafka's own generator avoids: the reserved ids, and a leading dash, which shells take for an option.
func kafkaID(random io.Reader, _ time.Time, _ Hidden) (Hidden, error) {
	for range 64 {
		b, err := read(random, 16)
		if err != nil {
			return "", err
		}
		b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80 // version 4, as java.util.UUID.randomUUID has it
		if s := base64.RawURLEncoding.EncodeToString(b); s[0] != '-' {
			return Hidden(s), nil
		}
	}
	return "", errors.New("the random source gives no random bytes")
}

// scramIterations is twice the least that Kafka takes for SCRAM-SHA-512 (ScramMechanism).
const scramIterations = 8192

// scram is a credential in salted form (RFC 5802, section 3) as Kafka's ScramParser reads it. Brokers do not learn the
// password itself. It holds for whatever the user's name is.
func scram(random io.Reader, _ time.Time, password Hidden) (Hidden, error) {
	salt, err := read(random, 24)
	if err != nil {
		return "", err
	}
	salted, err := pbkdf2.Key(sha512.New, string(password), salt, scramIterations, sha512.Size)
	if err != nil {
		return "", fmt.Errorf("salt a password: %w", err)
	}
	enc := base64.StdEncoding.EncodeToString
	return Hidden(fmt.Sprintf(`SCRAM-SHA-512=[iterations=%d,salt="%s",saltedpassword="%s"]`, scramIterations, enc(salt), enc(salted))), nil
}

// recovery spells 256 bits with the letters that every keyboard layout has in the same place.
func recovery(random io.Reader, _ time.Time, _ Hidden) (Hidden, error) {
	const modhex = "cbdefghijklnrtuv"
	b, err := read(random, 32)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	for i, c := range b {
		if i > 0 && i%4 == 0 {
			out.WriteByte('-')
		}
		out.WriteByte(modhex[c>>4])
		out.WriteByte(modhex[c&15])
	}
	return Hidden(out.String()), nil
}

// ageIdentity is 32 bytes in the capital letters of Bech32 (BIP 173).
func ageIdentity(random io.Reader, _ time.Time, _ Hidden) (Hidden, error) {
	b, err := read(random, 32)
	if err != nil {
		return "", err
	}
	return Hidden(strings.ToUpper(bech32("age-secret-key-", b))), nil
}

// bech32 spells bytes with their checksum (BIP 173; age lifts the bound of 90 letters).
func bech32(prefix string, data []byte) string {
	const alphabet = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"
	var fives []byte
	bits, n := uint32(0), 0
	for _, c := range data {
		bits, n = bits<<8|uint32(c), n+8
		for ; n >= 5; n -= 5 {
			fives = append(fives, byte(bits>>(n-5)&31))
		}
	}
	if n > 0 {
		fives = append(fives, byte(bits<<(5-n)&31))
	}
	sum := uint32(1)
	add := func(v byte) {
		top := sum >> 25
		sum = sum&0x1ffffff<<5 ^ uint32(v)
		for i, g := range [5]uint32{0x3b6a57b2, 0x26508e6d, 0x1ea119fa, 0x3d4233dd, 0x2a1462b3} {
			if top>>i&1 == 1 {
				sum ^= g
			}
		}
	}
	for _, c := range []byte(prefix) {
		add(c >> 5)
	}
	add(0)
	for _, c := range []byte(prefix) {
		add(c & 31)
	}
	for _, v := range append(fives, make([]byte, 6)...) {
		add(v)
	}
	sum ^= 1
	for i := range 6 {
		fives = append(fives, byte(sum>>(5*(5-i))&31))
	}
	var out strings.Builder
	out.WriteString(prefix + "1")
	for _, v := range fives {
		out.WriteByte(alphabet[v])
	}
	return out.String()
}

// maxGiven is the longest value that a user may bring, in bytes.
const maxGiven = 1024

// checkGiven checks a value that the user brings, and takes the line end of its file away.
func checkGiven(value Hidden) (Hidden, error) {
	v := strings.TrimSuffix(strings.TrimSuffix(string(value), "\n"), "\r")
	switch {
	case v == "":
		return "", errors.New("it is empty")
	case len(v) > maxGiven:
		return "", fmt.Errorf("it has %d bytes, more than %d", len(v), maxGiven)
	case !utf8.ValidString(v) || strings.ContainsFunc(v, unicode.IsControl):
		return "", errors.New("it has bytes that cannot stand in a line of text")
	}
	return Hidden(v), nil
}
