package undermine.agent.variables;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.ref.WeakReference;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import undermine.agent.Given;
import undermine.agent.stacks.Sites;
import undermine.agent.wire.SharedState;

@Timeout(60)
class SurveyTest {
    private static final String PATH = "shop:Node.";

    private final SharedState state = new SharedState(Given.shared());
    private final Map<String, List<String>> samples = new LinkedHashMap<>();
    private final Samples recorded = new Samples() {
        @Override
        public void changed(String name, String key, String text) {
            samples.computeIfAbsent(name, each -> new ArrayList<>()).add(key + "=" + text);
        }

        @Override
        public void leadsNowhere(String name, String why) {
            throw new AssertionError(name + ": " + why);
        }
    };
    private final Survey survey = new Survey(new Sites(List.of("shop"), null));

    SurveyTest() {
        survey.loading("shop/Node", getClass().getClassLoader());
    }

    private shop.Node node() {
        shop.Node node = new shop.Node();
        survey.made("shop/Node", node);
        return node;
    }

    private void look() {
        survey.nextLook = 0;
        survey.look(this, state, recorded);
    }

    @Test
    void onlyClassesOfTheTargetWithANameAreWatched() {
        assertTrue(survey.watches("shop/Node"));
        assertTrue(survey.watches("shop/Node$Inner"));
        assertFalse(survey.watches("shop/Node$1"));
        assertFalse(survey.watches("shop/Node$1Local"));
        assertFalse(survey.watches("library/Node"));
    }

    @Test
    void aNewInstanceIsLookedAtWithTheNextReading() {
        look();
        survey.nextSearch = Long.MAX_VALUE;
        node();
        look();
        assertEquals(List.of("=1"), samples.get(PATH + "term"));
    }

    @Test
    void thereIsAPauseBetweenReadings() {
        shop.Node node = node();
        look();
        node.term = 2;
        survey.nextLook = Long.MAX_VALUE;
        survey.look(this, state, recorded);
        assertEquals(List.of("=1"), samples.get(PATH + "term"));
    }

    @Test
    void aPathThatChangesTooOftenIsGivenUp() {
        shop.Node node = node();
        for (int i = 0; i < Survey.SAMPLES_MAX + 100; i++) {
            node.term = i;
            look();
        }
        List<String> found = samples.get(PATH + "term");
        assertEquals("=null", found.get(found.size() - 1));
        assertEquals(Survey.SAMPLES_MAX + 3, found.size());
    }

    @Test
    void aPathWithTooManyKeysIsGivenUp() {
        shop.Node node = node();
        node.view.put("s1", 1);
        look();
        assertEquals(List.of("s1=1"), samples.get(PATH + "view[*]"));
        for (int i = 0; i < SurveyWalk.KEYS_MAX; i++) {
            node.view.put("t" + i, 1);
        }
        look();
        node.view.keySet().retainAll(List.of("s1"));
        look();
        assertEquals(List.of("s1=1", "s1=null"), samples.get(PATH + "view[*]"));
    }

    @Test
    void aClassWithManyInstancesIsGivenUp() {
        node();
        look();
        List<shop.Node> kept = new ArrayList<>();
        for (int i = 0; i < Survey.MADE_MAX; i++) {
            kept.add(node());
        }
        look();
        assertEquals(List.of("=1", "=null"), samples.get(PATH + "term"));
        kept.add(node());
        look();
        assertEquals(List.of("=1", "=null"), samples.get(PATH + "term"));
    }

    @Test
    void instancesAreNotKeptAlive() throws InterruptedException {
        WeakReference<shop.Node> node = new WeakReference<>(node());
        look();
        while (node.get() != null) {
            System.gc();
            Thread.sleep(1);
        }
        look();
        assertEquals(List.of("=1", "=null"), samples.get(PATH + "term"));
    }
}
