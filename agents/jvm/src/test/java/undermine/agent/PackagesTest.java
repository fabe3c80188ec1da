package undermine.agent;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/** Each package imports only packages that stand before it in the list. */
class PackagesTest {
    private static final List<String> ORDER = List.of("lib", "process", "wire", "classfiles", "stacks", "operations", "names",
            "faults", "variables", "record", "heap", "content", "net", "files", "sync", "hooks", "instead", "own", "weave",
            "values", "facts", "");
    private static final Pattern IMPORT = Pattern.compile("^import undermine\\.agent\\.(?:(\\w+)\\.)?\\w+;", Pattern.MULTILINE);

    private static List<Path> files(String root) throws IOException {
        try (Stream<Path> all = Files.walk(Path.of("src", "main", root, "undermine", "agent"))) {
            return all.filter(path -> path.toString().endsWith(".java")).collect(Collectors.toList());
        }
    }

    private static String packageOf(Path file) {
        String name = file.getParent().getFileName().toString();
        return name.equals("agent") ? "" : name;
    }

    @Test
    void importsGoOneWay() throws IOException {
        List<Path> files = new ArrayList<>(files("java"));
        files.addAll(files("java17"));
        List<String> wrong = new ArrayList<>();
        for (Path file : files) {
            int own = ORDER.indexOf(packageOf(file));
            Matcher found = IMPORT.matcher(Files.readString(file));
            while (found.find()) {
                String other = found.group(1) == null ? "" : found.group(1);
                if (own < 0 || ORDER.indexOf(other) >= own) {
                    wrong.add(file.getFileName() + ": " + found.group());
                }
            }
        }
        assertEquals(List.of(), wrong);
    }

    @Test
    void eachPackageSaysWhatItIsFor() throws IOException {
        for (String each : ORDER) {
            Path folder = Path.of("src", "main", "java", "undermine", "agent").resolve(each);
            assertEquals(true, Files.exists(folder.resolve("package-info.java")), each);
        }
    }
}
