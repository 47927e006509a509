// Writes shapes.txt: how the types of the Kubernetes API look in JSON. From it the embedded cluster knows what
// decoding into these types and encoding again makes of an object: which fields there are, which of them are left out
// when they are empty, which are written even then.
//
//	go run . > ../src/server/defaults/shapes.txt
//
// One line per struct, one word per field: its name, `!` if it is written even when empty, `:`, `*` if it is a pointer
// (empty is then not the same as absent), `[]` or `{}` for a list or a map, and the type.
package main

import (
	"fmt"
	"reflect"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

var roots = []any{
	corev1.Namespace{}, corev1.Node{}, schedulingv1.PriorityClass{}, corev1.ServiceAccount{}, corev1.ConfigMap{},
	corev1.Secret{}, corev1.Service{}, corev1.ResourceQuota{}, corev1.PersistentVolumeClaim{},
	policyv1.PodDisruptionBudget{}, appsv1.Deployment{}, appsv1.StatefulSet{}, appsv1.DaemonSet{}, batchv1.CronJob{},
	batchv1.Job{}, appsv1.ReplicaSet{}, appsv1.ControllerRevision{}, corev1.Pod{}, coordinationv1.Lease{},
	eventsv1.Event{}, storagev1.CSINode{},
}

var leaves = map[reflect.Type]string{
	reflect.TypeFor[metav1.Time]():          "time",
	reflect.TypeFor[metav1.MicroTime]():     "microtime",
	reflect.TypeFor[resource.Quantity]():    "quantity",
	reflect.TypeFor[intstr.IntOrString]():   "intstr",
	reflect.TypeFor[metav1.FieldsV1]():      "raw",
	reflect.TypeFor[runtime.RawExtension](): "raw",
	reflect.TypeFor[[]byte]():               "bytes",
}

var (
	seen  = map[reflect.Type]bool{}
	queue []reflect.Type
)

func name(t reflect.Type) string {
	if leaf, ok := leaves[t]; ok {
		return leaf
	}
	switch t.Kind() {
	case reflect.Pointer:
		return "*" + name(t.Elem())
	case reflect.Slice:
		return "[]" + name(t.Elem())
	case reflect.Map:
		return "{}" + name(t.Elem())
	case reflect.Struct:
		if !seen[t] {
			seen[t] = true
			queue = append(queue, t)
		}
		return t.Name()
	default:
		return t.Kind().String()
	}
}

func fields(t reflect.Type) (words []string) {
	for i := range t.NumField() {
		field := t.Field(i)
		tag := strings.Split(field.Tag.Get("json"), ",")
		if tag[0] == "-" {
			continue
		}
		if tag[0] == "" && field.Anonymous {
			words = append(words, fields(field.Type)...)
			continue
		}
		always := "!"
		for _, option := range tag[1:] {
			// omitempty never leaves out a struct; omitzero does.
			isStruct := field.Type.Kind() == reflect.Struct
			if option == "omitzero" || option == "omitempty" && !isStruct {
				always = ""
			}
		}
		words = append(words, tag[0]+always+":"+name(field.Type))
	}
	return words
}

func main() {
	for _, root := range roots {
		name(reflect.TypeOf(root))
	}
	for len(queue) > 0 {
		next := queue[0]
		queue = queue[1:]
		fmt.Println(next.Name(), strings.Join(fields(next), " "))
	}
}
