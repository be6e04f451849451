// Package secureboot signs programs for UEFI Secure Boot and makes the keys and variables that firmware checks them with.
//
// What it writes is that of packages authenticode and siglist: signatures carry no time, so that the same program and key
// give the same bytes, and variables follow UEFI 2.10.
//
// It leaves out time stamps, chains of certificates, and keys on hardware tokens.
//
// The standard library has no PKCS #7 and no Authenticode. sbsign and efitools, against which the tests hold what is
// made here, are programs, and a build needs none on its host but Go.
package secureboot
