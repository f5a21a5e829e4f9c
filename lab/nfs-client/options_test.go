package main

import (
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestArgumentsOfMountAndOfTheKubelet(t *testing.T) {
	for _, line := range []string{
		"nfs:/data /mnt -o rw,nfsvers=4.1",
		"-t nfs -o rw,nfsvers=4.1 nfs:/data /mnt",
		"nfs:/data /mnt -orw -v -n -o nfsvers=4.1",
	} {
		source, directory, words, err := parseArguments(strings.Fields(line))
		if err != nil || source != "nfs:/data" || directory != "/mnt" || !slices.Contains(words, "nfsvers=4.1") {
			t.Errorf("%s: %s %s %v %v", line, source, directory, words, err)
		}
	}
	if _, _, words, _ := parseArguments([]string{"a:/b", "/c", "-r"}); !slices.Contains(words, "ro") {
		t.Errorf("-r is not read-only: %v", words)
	}
	if _, _, _, err := parseArguments([]string{"a:/b"}); err == nil {
		t.Error("a command line without directory is accepted")
	}
}

func TestOptions(t *testing.T) {
	parsed := func(text string) options {
		t.Helper()
		result, err := parseOptions(strings.Split(text, ","))
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
	if o := parsed("rw"); o != (options{port: 2049, ttl: 3 * time.Second, locks: true}) {
		t.Errorf("defaults: %+v", o)
	}
	if o := parsed("ro,nosuid,nodev,hard,noatime"); o.soft != 0 ||
		o.flags != syscall.MS_RDONLY|syscall.MS_NOSUID|syscall.MS_NODEV|syscall.MS_NOATIME {
		t.Errorf("flags: %+v", o)
	}
	if o := parsed("soft,timeo=50,retrans=1,port=2050,noac,nolock"); o != (options{port: 2050, soft: 10 * time.Second}) {
		t.Errorf("values: %+v", o)
	}
	if o := parsed("actimeo=0"); o.ttl != 0 {
		t.Errorf("actimeo: %+v", o)
	}
	for _, text := range []string{"vers=3", "nfsvers=4.0", "sec=krb5", "timeo=x", "port=70000", "timeo=-1"} {
		if _, err := parseOptions([]string{text}); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
